"""What an S3-compatible server honours, found out at the start by asking it; nothing is taken on trust."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

from flows.s3_client import Client
from flows.storage import StorageError

KEY = ".probe/jitmatrix"
"""Where it is tried out, below the root: one key, since a user who may not delete would have every other for ever."""

_CONTENT = b"jitmatrix tries out here what this storage honours; it may be deleted\n"
_SKEW_S = 60.0
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Honours:
    """What a server honours.

    Attributes:
        conditional: ``If-None-Match: *`` on a put: of several writers, one.
        multipart: the same when a multipart upload is completed.
        checksums: newer checksums are accepted; what needs ``when_required`` does not.
        verified: and a wrong one is refused.
        deletes: these credentials may delete.
        skew_s: by how many seconds this machine's clock is ahead of the server's.
    """

    conditional: bool
    multipart: bool
    checksums: bool
    verified: bool
    deletes: bool
    skew_s: float

    def __str__(self) -> str:
        unsafe = "" if self.conditional and self.multipart else "; racing uploaders are not safe here"
        skew = abs(self.skew_s) > _SKEW_S
        clock = f"; this machine's clock is {self.skew_s:+.0f} s off, set it" if skew else ""
        checksums = "checksums verified" if self.verified else "checksums ignored" if self.checksums else "no checksums"
        return (
            f"conditional puts {_honoured(self.conditional)}, conditional multipart {_honoured(self.multipart)}, "
            f"{checksums}, delete {'allowed' if self.deletes else 'refused'}{unsafe}{clock}"
        )


def checksum(content: bytes) -> str:
    """Give the sha256 of content in base64, as S3's headers have it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def probe(client: Client, key: str) -> Honours:
    """Find out what a server honours; a server that refuses newer checksums gets none from then on.

    Args:
        client: the bucket.
        key: a key to try out; what is there is replaced, and removed where that is allowed.

    Returns:
        What it honours.

    Raises:
        StorageError: it cannot be reached or written at all.
    """
    checksums = _accepts_checksums(client, key)
    if not checksums:
        client.without_checksums()
    conditional = _conditional(client, key)
    verified = checksums and _verifies(client, key)
    multipart = conditional and _conditional_multipart(client, key)
    try:
        client.call("delete_object", Key=key)
        deletes = True
    except StorageError as error:
        if error.status != 403:
            raise
        deletes = False
    return Honours(conditional, multipart, checksums, verified, deletes, client.skew_s or 0.0)


def _accepts_checksums(client: Client, key: str) -> bool:
    try:
        client.call("put_object", Key=key, Body=_CONTENT, ChecksumSHA256=checksum(_CONTENT))
    except StorageError as error:
        # 400 may have other causes; those meet the next put, without checksums, as well.
        if error.status in {400, 411, 501}:
            return False
        raise
    return True


def _verifies(client: Client, key: str) -> bool:
    for _ in range(_TRIES):
        try:
            # A wrong checksum is otherwise a reason to send again.
            client.call("put_object", once=True, Key=key, Body=_CONTENT, ChecksumSHA256=checksum(b"other"))
        except StorageError as error:
            if error.status == 400:
                return True
            client.call("head_bucket")
        else:
            break
    return False


def _conditional(client: Client, key: str) -> bool:
    """Put where something is; another probe may just have removed it, so one put that goes through is no proof."""
    return any(_refuses(client, "put_object", key, Body=_CONTENT) for _ in range(_TRIES))


def _conditional_multipart(client: Client, key: str) -> bool:
    for _ in range(_TRIES):
        upload = client.call("create_multipart_upload", Key=key)["UploadId"]
        try:
            part = client.call("upload_part", Key=key, UploadId=upload, PartNumber=1, Body=_CONTENT)
            whole = {"UploadId": upload, "MultipartUpload": {"Parts": [part_of(1, part)]}}
            if _refuses(client, "complete_multipart_upload", key, **whole):
                _end(client, key, whole)
                return True
        except StorageError as error:
            if error.code != "NoSuchUpload":
                raise
    return False


def _end(client: Client, key: str, whole: dict[str, Any]) -> None:
    try:
        client.call("abort_multipart_upload", Key=key, UploadId=whole["UploadId"])
    except StorageError as error:
        if error.status != 403:
            raise
        # Whoever may not abort may still complete, and so leaves none begun.
        client.call("complete_multipart_upload", Key=key, **whole)


def part_of(number: int, answer: dict[str, object]) -> dict[str, object]:
    """Describe a part for the completion of its upload.

    Args:
        number: its number, from 1.
        answer: to its upload.

    Returns:
        Number, ETag, and the checksum where the server gave one.
    """
    kept = {name: value for name, value in answer.items() if name == "ETag" or name.startswith("Checksum")}
    kept.pop("ChecksumType", None)
    return {"PartNumber": number, **kept}


def _refuses(client: Client, operation: str, key: str, **parameters: Any) -> bool:
    """Tell whether a call is refused because something is there."""
    try:
        client.call(operation, Key=key, IfNoneMatch="*", **parameters)
    except StorageError as error:
        if error.status in {400, 412, 501}:
            # The others: the condition is not implemented, and the put without it went through.
            return error.status == 412
        raise
    return False


def _honoured(yes: bool) -> str:
    return "honoured" if yes else "ignored"
