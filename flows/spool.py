"""The spool: a local folder per root in which results are durable until the root has them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.durable import fsync_folder, publish
from flows.file_lock import locked
from flows.keys import key_part
from flows.settings import settings
from flows.storage import LocalRoot, Root
from kernels.errors import UsageError

_TARGET = ".target.json"
_LOCK = ".lock"
_POLL_S = 0.2
_ABANDONED_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Spool:
    """A folder in the layout of results, whose files are on their way to a root.

    Attributes:
        folder: the folder.
        target: address of the root.
    """

    folder: Path
    target: str

    def pending(self) -> list[str]:
        """List the keys that wait; markers stand last, since they say that all the others are there."""
        keys = [stored.key for stored in LocalRoot(self.folder).files()]
        return sorted(keys, key=lambda key: (is_marker(key), key))

    def path(self, key: str) -> Path:
        """Give the file of a key."""
        return self.folder / key

    def remove(self, keys: Iterable[str]) -> None:
        """Take files out that the root has, and folders that are empty then; durable when it returns.

        Args:
            keys: of the files; one that is not there is no error.
        """
        for folder in {self._removed(key) for key in keys}:
            for each in (folder, *folder.parents):
                if each == self.folder or not each.is_relative_to(self.folder):
                    break
                with contextlib.suppress(FileNotFoundError):
                    fsync_folder(each)
                try:
                    each.rmdir()
                except OSError:  # it is not empty, or another uploader was here first
                    break

    def sweep(self) -> None:
        """Take away temporary files that killed writers have left: they are a day old, and nobody's results."""
        for path in self.folder.rglob(".*"):
            with contextlib.suppress(FileNotFoundError):
                left = path.name not in {_TARGET, _LOCK} and path.is_file()
                if left and time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()

    @contextlib.contextmanager
    def locked(self, patience_s: float) -> Iterator[bool]:
        """Hold the spool against other uploaders; writers need no lock.

        Args:
            patience_s: seconds to wait for another.

        Yields:
            Whether it is held; false where another had it all the time.
        """
        end = time.monotonic() + patience_s
        with (self.folder / _LOCK).open("ab") as file:
            while not (held := locked(file.fileno())) and time.monotonic() < end:
                time.sleep(_POLL_S)
            # The kernel frees it when the file is closed, and so when this process is killed.
            yield held

    def _removed(self, key: str) -> Path:
        path = self.path(key)
        path.unlink(missing_ok=True)
        return path.parent


def spool(target: Root) -> Spool:
    """Open the spool of a root; a local root is its own, nothing has to be sent.

    Args:
        target: the root.

    Returns:
        The spool, where results are to be written first; a root's folder in ``JITMATRIX_SPOOL`` is made.

    Raises:
        UsageError: it cannot be made.
    """
    if isinstance(target, LocalRoot):
        return Spool(target.path, target.address)
    folder = settings().spool.expanduser() / key_part(target.address.partition("://")[2])
    try:
        if not (folder / _TARGET).exists():
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            publish(folder / _TARGET, (json.dumps({"root": target.address}) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"JITMATRIX_SPOOL: {folder} cannot be made ({error.strerror}); name a folder of yours"
        ) from None
    return Spool(folder, target.address)


def spools() -> list[Spool]:
    """List the spools in ``JITMATRIX_SPOOL``, empty ones too.

    Returns:
        The spools.
    """
    found = []
    for path in sorted(settings().spool.expanduser().glob(f"*/{_TARGET}")):
        with contextlib.suppress(ValueError, KeyError, TypeError, FileNotFoundError):
            found.append(Spool(path.parent, str(json.loads(path.read_text())["root"])))
    return found


def is_marker(key: str) -> bool:
    """Tell whether a key is a run's marker: ``runs/date=YYYY-MM-DD/_<run_id>.json``."""
    folder, _, name = key.rpartition("/")
    return folder.startswith("runs/") and name.startswith("_") and name.endswith(".json")
