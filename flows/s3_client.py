"""Calls to S3-compatible storage that outlive its faults: retries, a deadline, credentials that are read again."""

from __future__ import annotations

import random
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.session import get_session

from flows.redaction import without_secrets
from flows.s3_errors import FAULTS, Verdict, explained, retry_after_s, skew_s, verdict
from flows.settings import settings
from flows.storage import StorageError

PATIENCE_S = 20.0
"""Seconds without any good answer after which a call is given up, while a user waits for it."""

CONNECTIONS = 16
"""Connections that are kept open for later calls."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 20.0


class Client:
    """A bucket, as boto3 reaches it with the user's configuration; threads may share it.

    Attributes:
        address: the root, for error lines.
        bucket: the bucket's name.
        patience_s: seconds without any good answer, to any thread, after which a call is given up.
        closing: when set, nothing is tried again.
        skew_s: by how many seconds this machine was ahead of the server at its last answer; None where it did not say.
    """

    def __init__(self, address: str, bucket: str) -> None:
        self.address = address
        self.bucket = bucket
        self.patience_s = PATIENCE_S
        self.closing = threading.Event()
        self.skew_s: float | None = None
        self._settings = settings()
        self._checksums = True
        self._lock = threading.Lock()
        self._session: Any = None
        self._client: Any = None
        self._used: tuple[str, str, str | None] | None = None
        self._answered = 0.0

    def call(self, operation: str, *, once: bool = False, **parameters: Any) -> dict[str, Any]:
        """Call an operation of boto3's client on the bucket, until it is answered for good.

        Args:
            operation: such as ``put_object``.
            once: whether nothing is tried again but with new credentials.
            parameters: as boto3 takes them; bodies are bytes, which can be sent again.

        Returns:
            The answer.

        Raises:
            StorageError: it was refused, or not answered in time.
        """
        began, attempt = time.monotonic(), 0
        while True:
            client = None
            try:
                client = self._opened()
                answer: dict[str, Any] = getattr(client, operation)(Bucket=self.bucket, **parameters)
            except FAULTS as error:
                found = verdict(error)
                if found is Verdict.RENEW and self._renewed(client):
                    continue
                pause = max(random.uniform(0, _pause_s(attempt)), retry_after_s(error))
                late = time.monotonic() + pause > max(began, self._answered) + self.patience_s
                if once or found is not Verdict.AGAIN or late or self.closing.wait(pause):
                    raise self._explained(error, operation) from None
                attempt += 1
            else:
                self._answered = time.monotonic()
                self.skew_s = skew_s(answer["ResponseMetadata"].get("HTTPHeaders", {}))
                return answer

    def without_checksums(self) -> None:
        """Send and expect no checksum but those that S3 has always had, for a server that refuses newer ones."""
        with self._lock:
            self._checksums, self._client = False, None

    def pyarrow_options(self) -> dict[str, Any]:
        """Give what pyarrow's S3FileSystem needs to reach the same server in the same way.

        Returns:
            Its keyword arguments, credentials among them.

        Raises:
            StorageError: there are no credentials.
        """
        try:
            client = self._opened()
            used = self._credentials()
            authority = self._session.get_config_variable("ca_bundle")
        except FAULTS as error:
            raise self._explained(error, "credentials") from None
        if used is None:
            raise StorageError(f"{self.address}: no credentials are found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID")
        region = self.call("head_bucket").get("BucketRegion") or client.meta.region_name or "us-east-1"
        options = {
            "access_key": used[0],
            "secret_key": used[1],
            "session_token": used[2],
            "region": "us-east-1" if region == "aws-global" else region,
            "force_virtual_addressing": self._settings.s3_addressing == "virtual",
        }
        if authority:
            options["tls_ca_file_path"] = authority
        endpoint = urlsplit(client.meta.endpoint_url)
        if not (endpoint.hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn")):
            options |= {"scheme": endpoint.scheme, "endpoint_override": endpoint.netloc}
        return options

    @property
    def endpoint(self) -> str:
        """The server's address, without what is secret in it; empty while none is known."""
        return without_secrets(self._client.meta.endpoint_url) if self._client is not None else ""

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                self._session = get_session()
                checks = "when_supported" if self._checksums else "when_required"
                config = Config(
                    connect_timeout=min(self._settings.s3_timeout_s, 10.0),
                    read_timeout=self._settings.s3_timeout_s,
                    max_pool_connections=CONNECTIONS,
                    # One attempt: this module retries, with a deadline and what the server asks for.
                    retries={"total_max_attempts": 1},
                    s3={"addressing_style": self._settings.s3_addressing},
                    request_checksum_calculation=checks,
                    response_checksum_validation=checks,
                    user_agent_extra="jitmatrix",
                )
                self._client = boto3.Session(botocore_session=self._session).client("s3", config=config)
                self._used = self._credentials()
            return self._client

    def _renewed(self, refused: Any) -> bool:
        """Read the credentials again; False where they are those that were refused."""
        with self._lock:
            if self._client is not refused:
                return True  # another thread has done so
            before, self._client = self._used, None
        try:
            self._opened()
        except FAULTS:
            return False
        return self._used not in {before, None}

    def _credentials(self) -> tuple[str, str, str | None] | None:
        found = self._session.get_credentials()
        frozen = found and found.get_frozen_credentials()
        return (frozen.access_key, frozen.secret_key, frozen.token) if frozen else None

    def _explained(self, error: Exception, operation: str) -> StorageError:
        return explained(error, self.address, self.bucket, self.endpoint or "the server", operation)


def _pause_s(attempt: int) -> float:
    """Bound the pause before a retry; the pause itself is random below it, so that many clients do not come at once."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 16))
