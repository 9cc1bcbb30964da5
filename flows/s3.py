"""A root of results in S3-compatible storage: conditional puts, hashes, and datasets for pyarrow."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from flows.durable import file_sha256
from flows.probe import KEY, Honours, checksum, part_of, probe
from flows.s3_client import Client
from flows.s3_errors import FAULTS
from flows.storage import ConflictError, Put, StorageError, Stored

PART_NBYTES = 16 << 20
"""Files above this size are sent in parts of it; a thread of an upload holds one part."""

_TRIES = 5
_CHUNK_NBYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class S3Root:
    """A prefix in a bucket; server, region and credentials are found as boto3 finds them.

    Attributes:
        bucket: the bucket's name.
        prefix: below which the keys stand; empty for the whole bucket.
    """

    bucket: str
    prefix: str

    @property
    def address(self) -> str:
        """The address, as in ``s3://bucket/prefix``."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @cached_property
    def client(self) -> Client:
        """The bucket as boto3 reaches it."""
        return Client(self.address, self.bucket)

    @cached_property
    def honours(self) -> Honours:
        """What the server honours, by a probe that writes and removes an object."""
        self._refuse_object()
        return probe(self.client, self._key(KEY))

    def check(self) -> str:
        """Say in one line what the server honours."""
        return f"{self.address}: {self.honours}"

    def files(self, prefix: str = "") -> Iterator[Stored]:
        """List the objects whose keys begin with a prefix."""
        # With a slash, so that s3://bucket/a does not list what belongs to s3://bucket/ab.
        base = self._key("")
        more: dict[str, Any] = {}
        while True:
            page = self.client.call("list_objects_v2", Prefix=base + prefix, **more)
            for found in page.get("Contents", ()):
                key = found["Key"].removeprefix(base)
                if not key.endswith("/") and not any(part.startswith(".") for part in key.split("/")):
                    yield Stored(key, found["Size"])
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def read(self, key: str) -> bytes:
        """Read an object."""
        content = io.BytesIO()
        self._receive(key, content)
        return content.getvalue()

    def fetch(self, key: str, path: Path) -> str:
        """Copy an object to a local file."""
        with path.open("wb") as file:
            return self._receive(key, file)

    def sha256(self, key: str) -> str | None:
        """Give the hash that is stored with an object; of one that has none, such as a synchronised one, hash it."""
        try:
            found = self._head(key)
        except StorageError as error:
            if error.status == 404:
                return None
            raise
        stored: str | None = found.get("Metadata", {}).get("sha256")
        if stored is not None:
            return stored
        digest = hashlib.sha256()
        for chunk in self.client.call("get_object", Key=self._key(key))["Body"].iter_chunks(_CHUNK_NBYTES):
            digest.update(chunk)
        return digest.hexdigest()

    def put(self, key: str, source: Path | bytes) -> Put:
        """Store an object under a key that is free."""
        if isinstance(source, Path) and source.stat().st_size > PART_NBYTES:
            return self._put_parts(key, source)
        content = source if isinstance(source, bytes) else source.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        parameters: dict[str, Any] = {"Key": self._key(key), "Body": content, "Metadata": {"sha256": digest}}
        if key.endswith(".html"):
            # A browser that is given its address opens it; of any other type it would keep it as a file.
            parameters["ContentType"] = "text/html; charset=utf-8"
        if self.honours.checksums:
            parameters["ChecksumSHA256"] = checksum(content)
        if self.honours.conditional:
            parameters["IfNoneMatch"] = "*"
        for _ in range(_TRIES):
            if not self.honours.conditional and self._there(key, digest):
                return Put.THERE
            try:
                self.client.call("put_object", **parameters)
                return Put.SENT
            except StorageError as error:
                if error.status != 412:
                    raise
            if self._there(key, digest):
                return Put.THERE
        raise self._unsettled(key)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self.client.call("delete_object", Key=self._key(key))

    def filesystem(self) -> tuple[Any, str]:
        """Give pyarrow's S3 file system, set up as boto3 is, and the path in it."""
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(**self.client.pyarrow_options()), f"{self.bucket}/{self.prefix}".rstrip("/")

    def _receive(self, key: str, file: IO[bytes]) -> str:
        for attempt in range(_TRIES):
            try:
                body = self.client.call("get_object", Key=self._key(key))["Body"]
            except StorageError as error:
                if error.code != "NoSuchKey":
                    raise
                raise StorageError(f"{self.address}: there is no {key}", status=404, code=error.code) from None
            digest = hashlib.sha256()
            file.seek(0)
            file.truncate()
            chunks = body.iter_chunks(_CHUNK_NBYTES)
            while True:
                try:
                    chunk = next(chunks, b"")
                except FAULTS as error:
                    # The call was answered, but its body broke off.
                    if attempt == _TRIES - 1:
                        raise StorageError(f"{self.address}: {key} breaks off while it is read", away=True) from error
                    break
                if not chunk:
                    return digest.hexdigest()
                digest.update(chunk)
                file.write(chunk)
        raise AssertionError("unreachable")

    def _put_parts(self, key: str, path: Path) -> Put:
        digest = file_sha256(path)
        if self._there(key, digest):
            return Put.THERE
        self._abort_left(key)
        for _ in range(_TRIES):
            if self._sent_in_parts(key, path, digest):
                return Put.SENT
            if self._there(key, digest):
                return Put.THERE
        raise self._unsettled(key)

    def _sent_in_parts(self, key: str, path: Path, digest: str) -> bool:
        """Send a file in parts; False where another upload was first or ended this one."""
        at: dict[str, Any] = {"Key": self._key(key)}
        at["UploadId"] = self.client.call("create_multipart_upload", Metadata={"sha256": digest}, **at)["UploadId"]
        done = False
        try:
            parts, sent = [], hashlib.sha256()
            with path.open("rb") as file:
                for number, content in enumerate(iter(lambda: file.read(PART_NBYTES), b""), 1):
                    sent.update(content)
                    answer = self.client.call("upload_part", PartNumber=number, Body=content, **at)
                    parts.append(part_of(number, answer))
            if sent.hexdigest() != digest:
                raise StorageError(f"{self.address}: {path} changed while it was sent", status=400)
            condition: dict[str, Any] = {"IfNoneMatch": "*"} if self.honours.multipart else {}
            self.client.call("complete_multipart_upload", MultipartUpload={"Parts": parts}, **condition, **at)
            done = True
        except StorageError as error:
            if error.status != 412 and error.code != "NoSuchUpload":
                raise
        finally:
            if not done:
                # What is left in spite of this, the next upload of the same key takes away.
                with contextlib.suppress(StorageError):
                    self.client.call("abort_multipart_upload", once=True, **at)
        return done

    def _abort_left(self, key: str) -> None:
        """End uploads of a key that others have begun: those of killed processes; a living one begins anew."""
        try:
            found = self.client.call("list_multipart_uploads", Prefix=self._key(key)).get("Uploads", ())
            for each in found:
                if each["Key"] == self._key(key):
                    self.client.call("abort_multipart_upload", Key=each["Key"], UploadId=each["UploadId"])
        except StorageError as error:
            # Not everybody may list uploads, and not every server can.
            if error.status not in {403, 404, 405, 501}:
                raise

    def _there(self, key: str, digest: str) -> bool:
        found = self.sha256(key)
        if found not in {None, digest}:
            raise ConflictError(f"{self.address}: {key} holds other content already")
        return found is not None

    def _head(self, key: str) -> dict[str, Any]:
        try:
            return self.client.call("head_object", Key=self._key(key))
        except StorageError as error:
            if error.status not in {400, 403}:
                raise
        # An answer to HEAD has no text: GET tells a missing right from credentials that have expired.
        answer = self.client.call("get_object", Key=self._key(key))
        answer["Body"].close()
        return answer

    def _refuse_object(self) -> None:
        if not self.prefix:
            return
        try:
            self.client.call("head_object", Key=self.prefix)
        except StorageError as error:
            if error.status in {400, 403, 404}:
                return  # where it is more than a missing object, the probe says why
            raise
        raise StorageError(f"{self.address}: there is an object of that name; name a prefix that is none", status=404)

    def _unsettled(self, key: str) -> StorageError:
        return StorageError(f"{self.address}: {key} comes and goes while it is stored", away=True)

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key
