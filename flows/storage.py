"""Where results live: one interface over a local folder and S3-compatible storage, with one layout."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from flows.durable import file_sha256, publish_new
from kernels.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class StorageError(UsageError):
    """Storage refused something or did not answer; the message is one line that says how to mend it.

    Attributes:
        status: HTTP status of the answer; None where there was none.
        code: the server's name of the error; empty where there was none.
        away: whether the same may work later with nothing mended here: no answer, or a server that is overloaded.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str = "", away: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.away = away

    @property
    def general(self) -> bool:
        """Whether the cause is not one object's: every other request would meet it too."""
        return self.away or self.status is None or self.status in {301, 307, 401, 403, 404}


class ConflictError(StorageError):
    """A key holds other content already; neither of the two is lost."""


class Put(StrEnum):
    """How a put ended."""

    SENT = "sent"
    THERE = "already there"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a listing tells of a stored file.

    Attributes:
        key: relative to the root, with slashes.
        nbytes: its size.
    """

    key: str
    nbytes: int


class Root(Protocol):
    """A root of results. Keys are relative to it; those with a part that begins with a dot are nobody's results."""

    @property
    def address(self) -> str:
        """The root as a user writes it; nothing secret is in it."""

    def files(self, prefix: str = "") -> Iterator[Stored]:
        """List what is stored under a prefix, in no promised order."""

    def read(self, key: str) -> bytes:
        """Read a file; StorageError of status 404 where there is none."""

    def fetch(self, key: str, path: Path) -> str:
        """Copy a file to a local one without holding it; gives the sha256 of what came, or raises as ``read`` does."""

    def sha256(self, key: str) -> str | None:
        """Give the sha256 of what a key holds, in hexadecimal digits; None where there is nothing."""

    def put(self, key: str, source: Path | bytes) -> Put:
        """Store a file under a key that is free; ConflictError where it holds other content."""

    def delete(self, key: str) -> None:
        """Remove a file; one that is not there is no error."""

    def filesystem(self) -> tuple[Any, str]:
        """Give a pyarrow file system and the root's path in it, for datasets."""

    def check(self) -> str:
        """Say in one line what the storage honours; StorageError where it cannot be written."""


@dataclass(frozen=True, slots=True)
class LocalRoot:
    """A local folder; it is made when something is first stored.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def address(self) -> str:
        """The folder's path."""
        return str(self.path)

    def files(self, prefix: str = "") -> Iterator[Stored]:
        """List the files whose keys begin with a prefix; StorageError where a folder may not be read."""
        start = self.path / prefix.rpartition("/")[0]
        for folder, folders, names in os.walk(start, onerror=self._unreadable, followlinks=True):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and not _circular(folder, name))
            below = Path(folder).relative_to(self.path).as_posix()
            for name in sorted(names):
                key = name if below == "." else f"{below}/{name}"
                if key.startswith(prefix) and not name.startswith("."):
                    try:
                        nbytes = os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - three times as fast
                    except OSError as error:
                        self._unreadable(error)
                    else:
                        yield Stored(key, nbytes)

    def read(self, key: str) -> bytes:
        """Read a file."""
        try:
            return (self.path / key).read_bytes()
        except FileNotFoundError:
            raise self._missing(key) from None

    def fetch(self, key: str, path: Path) -> str:
        """Copy a file."""
        try:
            shutil.copyfile(self.path / key, path)
        except FileNotFoundError:
            raise self._missing(key) from None
        return file_sha256(path)

    def sha256(self, key: str) -> str | None:
        """Hash a file."""
        try:
            return file_sha256(self.path / key)
        except FileNotFoundError:
            return None

    def put(self, key: str, source: Path | bytes) -> Put:
        """Store a file under a name that is free."""
        if publish_new(self.path / key, source):
            return Put.SENT
        given = hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else file_sha256(source)
        if self.sha256(key) != given:
            raise ConflictError(f"{self.address}: {key} holds other content already")
        return Put.THERE

    def delete(self, key: str) -> None:
        """Remove a file."""
        (self.path / key).unlink(missing_ok=True)

    def filesystem(self) -> tuple[Any, str]:
        """Give pyarrow's local file system and the folder's path."""
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self.path.absolute())

    def check(self) -> str:
        """Say where the folder is; ``root`` has seen that it can be written."""
        return f"{self.address}: a local folder"

    def _unreadable(self, error: OSError) -> None:
        # A writer or a compaction may remove what was listed a moment ago; a link to nothing is somebody's mistake.
        if isinstance(error, FileNotFoundError) and not Path(error.filename).is_symlink():
            return
        raise StorageError(
            f"{self.address}: {error.filename} cannot be read ({error.strerror}); what it holds would be left out: "
            "take it out of the folder, or let it be read"
        ) from None

    def _missing(self, key: str) -> StorageError:
        return StorageError(f"{self.address}: there is no {key}", status=404, code="NoSuchKey")


def _circular(folder: str, name: str) -> bool:
    """Tell whether a link leads to a folder in which it lies itself: to follow it would never end."""
    path = Path(folder, name)
    return path.is_symlink() and Path(folder).resolve().is_relative_to(path.resolve())


def root(text: str, *, to_read: bool = False) -> Root:
    """Read the address of a root.

    Args:
        text: ``results``, ``/path``, ``file:///path`` or ``s3://bucket/prefix``.
        to_read: whether it is enough that a folder may be read; it must be there then.

    Returns:
        The root; nothing is made, and nothing is asked of a server yet.

    Raises:
        UsageError: it is none of these, or a local one that cannot be a folder of the user's.
    """
    scheme = _SCHEME.match(text)
    if not text.strip():
        raise UsageError("--results is empty; name a folder, or a bucket as s3://bucket/prefix")
    if scheme is None:
        return LocalRoot(_folder(text, Path(text), to_read))
    if scheme[1].lower() == "file":
        place = urlsplit(text)
        if place.netloc not in {"", "localhost"} or not place.path:
            raise UsageError(f"--results {text}: a file address has three slashes, such as file:///data/results")
        return LocalRoot(_folder(text, Path(unquote(place.path)), to_read))
    bucket, _, prefix = text[scheme.end() :].partition("/")
    if "@" in bucket:
        raise UsageError(
            "--results s3://: credentials do not belong in an address; set AWS_PROFILE or AWS_ACCESS_KEY_ID"
        )
    if scheme[1].lower() != "s3":
        raise UsageError(
            f"--results {text}: {scheme[1]} is not known; choose a folder, file:///path or s3://bucket/prefix"
        )
    if not bucket:
        raise UsageError(f"--results {text}: it names no bucket; write s3://bucket/prefix")
    from flows.s3 import S3Root

    return S3Root(bucket, "/".join(part for part in prefix.split("/") if part))


def _folder(text: str, path: Path, to_read: bool) -> Path:
    if to_read and not os.path.lexists(path):
        raise UsageError(
            f"--results {text}: there is no such folder; name the one that results were written to, or let "
            "jitmatrix bench write some"
        )
    there = next(part for part in (path.absolute(), *path.absolute().parents) if os.path.lexists(part))
    if not there.is_dir():
        raise UsageError(f"--results {text}: {there.name} is a file; name a folder, it is made when missing")
    if not os.access(there, (os.R_OK if to_read else os.W_OK) | os.X_OK):
        raise UsageError(
            f"--results {text}: {there} may not be {'read' if to_read else 'written to'}; name a folder of yours"
        )
    return path
