"""Send what a spool holds to its root: nothing lost, nothing doubled, markers last."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flows.durable import file_sha256
from flows.layout import PLANS
from flows.spool import Spool, is_marker
from flows.storage import ConflictError, Put, Root, StorageError

if TYPE_CHECKING:
    from flows.s3 import S3Root

THREADS = 8
"""Files on their way at once."""

PATIENCE_S = 120.0
"""Seconds without any good answer after which an upload is given up, and left to the next."""

_OF_A_RUN = ("timings/", "runs/")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an upload is.

    Attributes:
        files: stored so far.
        all_files: to store.
        nbytes: stored so far.
        all_nbytes: to store.
    """

    files: int
    all_files: int
    nbytes: int
    all_nbytes: int


@dataclass(slots=True)
class Uploaded:
    """What an upload did; keys are in no promised order.

    Attributes:
        target: address of the root.
        sent: keys that were stored.
        there: keys that the root had already, with the same content.
        waiting: keys that are still to be stored; their files are in the spool.
        conflicts: keys under which the root holds other content; the files stay in the spool, to be looked at.
        errors: why keys wait or conflict, a line each.
    """

    target: str
    sent: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the root has everything."""
        return not (self.waiting or self.conflicts)

    def __str__(self) -> str:
        counts = f"{self.target}: {len(self.sent)} sent, {len(self.there)} already there"
        if self.complete:
            return counts
        return f"{counts}, {len(self.waiting)} waiting, {len(self.conflicts)} in conflict; {'; '.join(self.errors)}"


def upload(
    spool: Spool,
    target: Root,
    *,
    threads: int = THREADS,
    patience_s: float = PATIENCE_S,
    progress: Callable[[Progress], None] | None = None,
) -> Uploaded:
    """Send what a spool holds; what is stored leaves it, a run's files with its marker.

    Faults of the storage are no exceptions here: what could not be stored waits, and ``errors`` says why.

    Args:
        spool: the spool; that of a local root has nothing to send.
        target: its root.
        threads: files on their way at once.
        patience_s: seconds without any good answer after which it gives up, or for which it waits for another uploader.
        progress: is told after every file; called by one thread at a time.

    Returns:
        What was sent, and what was not.
    """
    result = Uploaded(target.address)
    if spool.target != target.address:
        raise ValueError(f"the spool of {spool.target} is not that of {target.address}")
    if not spool.pending():
        return result
    from flows.s3 import S3Root  # boto3 takes a while to import, and results that stay here need none of it

    if not isinstance(target, S3Root):
        return result
    target.client.patience_s = patience_s
    target.client.closing.clear()
    with spool.locked(patience_s) as held:
        keys = spool.pending()
        if not held and keys:
            result.errors.append(f"another upload of {spool.folder} is running")
        if held:
            spool.sweep()
            try:
                target.check()
            except StorageError as error:
                result.errors.append(str(error))
        if result.errors:
            result.waiting += keys
        else:
            _Upload(spool, target, result, progress, threads).run(keys)
    return result


class _Upload:
    """One pass over a spool."""

    def __init__(
        self,
        spool: Spool,
        target: S3Root,
        result: Uploaded,
        progress: Callable[[Progress], None] | None,
        threads: int,
    ) -> None:
        self._spool, self._target, self._result = spool, target, result
        self._progress, self._threads = progress, threads
        self._lock = threading.Lock()
        self._stopped = False
        self._acknowledged: set[str] = set()
        self._done = Progress(0, 0, 0, 0)

    def run(self, keys: list[str]) -> None:
        sizes = {key: self._nbytes(key) for key in keys}
        self._done = Progress(0, len(keys), 0, sum(sizes.values()))
        markers = [key for key in keys if is_marker(key)]
        data = [key for key in keys if not is_marker(key)]
        with self._pool() as pool:
            stored = dict(zip(data, pool.map(self._store, data), strict=True))
            self._spool.remove(key for key, done in stored.items() if done and not key.startswith(_OF_A_RUN))
            named = {key: self._named(key) for key in markers}
            each = {pair: None for pairs in named.values() for pair in pairs or ()}
            there = dict(zip(each, pool.map(self._verify, each), strict=True))
            whole = [key for key, pairs in named.items() if pairs is not None and all(there[pair] for pair in pairs)]
            self._wait(set(markers) - set(whole))
            acknowledged = [key for key, done in zip(whole, pool.map(self._store, whole), strict=True) if done]
        # The marker last: while it is here, a killed removal goes on where it was.
        self._spool.remove(key for marker in acknowledged for key, _ in named[marker] or ())
        self._spool.remove(acknowledged)

    @contextlib.contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="upload")
        try:
            yield pool
        except BaseException:
            self._stopped = True
            self._target.client.closing.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _store(self, key: str) -> bool:
        """Store a file; tell whether the root has it."""
        if self._stopped:
            self._wait([key])
            return False
        nbytes = self._nbytes(key)
        result = self._result
        try:
            put = self._target.put(key, self._spool.path(key))
        except FileNotFoundError:
            return True  # another uploader has stored it; a marker that names it is held against the root
        except ConflictError as error:
            # Named by its own hash, a program or a plan is the same in other bytes, packed by another library.
            if not key.startswith(("hlo/", PLANS)):
                self._fail(result.conflicts, key, str(error))
                return False
            put = Put.THERE
        except StorageError as error:
            self._stopped = self._stopped or error.general
            self._fail(result.waiting, key, str(error))
            return False
        except OSError as error:
            self._fail(result.waiting, key, f"{self._spool.path(key)} cannot be read ({error.strerror})")
            return False
        with self._lock:
            self._acknowledged.add(key)
            (result.sent if put is Put.SENT else result.there).append(key)
            done = self._done
            self._done = replace(done, files=done.files + 1, nbytes=done.nbytes + nbytes)
            if self._progress is not None:
                self._progress(self._done)
        return True

    def _named(self, marker: str) -> list[tuple[str, str]] | None:
        """Give the keys and hashes that a marker names; None where it is none."""
        try:
            content = json.loads(self._spool.path(marker).read_bytes())
            return [(str(file["key"]), str(file["sha256"])) for file in content["files"]]
        except FileNotFoundError:
            return []  # another uploader has stored it, and what it names before it
        except (OSError, ValueError, KeyError, TypeError):
            self._fail(self._result.conflicts, marker, f"{self._spool.path(marker)} is no marker of a run")
            return None

    def _verify(self, pair: tuple[str, str]) -> bool:
        """Tell whether the root holds what a marker names, whoever stored it."""
        key, sha256 = pair
        if self._stopped or key in self._result.conflicts or key in self._result.waiting:
            return False
        try:
            found = self._sha256(key)
        except StorageError as error:
            self._stopped = self._stopped or error.general
            self._fail(None, key, str(error))
            return False
        if found is None and self._spool.path(key).exists():
            return self._store(key) and self._verify(pair)  # it was written while the spool was listed
        if found != sha256:
            lack = "is neither here nor there" if found is None else "is not what it says"
            self._fail(None, key, f"{self._target.address}: {key}, which its marker names, {lack}")
        return found == sha256

    def _sha256(self, key: str) -> str | None:
        # What was acknowledged a moment ago is what stands in the spool; for everything else the root is asked.
        if key in self._acknowledged:
            with contextlib.suppress(FileNotFoundError):
                return file_sha256(self._spool.path(key))
        return self._target.sha256(key)

    def _fail(self, among: list[str] | None, key: str, why: str) -> None:
        with self._lock:
            if among is not None:
                among.append(key)
            if why not in self._result.errors:
                self._result.errors.append(why)

    def _wait(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._result.waiting += [key for key in keys if key not in self._result.conflicts]

    def _nbytes(self, key: str) -> int:
        try:
            return self._spool.path(key).stat().st_size
        except FileNotFoundError:
            return 0
