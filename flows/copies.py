"""Copies of stored files in a folder, held against what a marker or a manifest says of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows import parquet, schema
from flows.layout import Entry
from flows.storage import Root, StorageError

TABLES = {"timings": schema.TIMINGS, "runs": schema.RUNS}
"""The schema of each table."""

SMALL_NBYTES = 64 << 10
"""A file of this size at most is no copy on disk: opening it twice would cost more than its rows do."""

HELD_NBYTES = 24 << 20
"""Packed bytes of small files whose rows are in memory at most; what comes on top is copied."""


class UnsoundError(Exception):
    """A file is not what its marker or manifest says.

    Attributes:
        key: of the file.
        reason: what it is instead.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class GoneError(UnsoundError):
    """A file is not there any more."""


class Copies:
    """Copies of files, named by their keys; the rows of small ones stay in memory, within bounds.

    Attributes:
        folder: the folder that they are in.
    """

    def __init__(self, root: Root, folder: Path) -> None:
        """Begin with none.

        Args:
            root: of the files.
            folder: for the copies.
        """
        self._root, self.folder = root, folder
        self._held: dict[str, tuple[int, pa.Table]] = {}
        self._held_nbytes = 0
        self._lock = threading.Lock()

    def take(self, entry: Entry) -> None:
        """Copy a file, and see that it is what is said of it.

        Args:
            entry: what a marker or a manifest says.

        Raises:
            GoneError: it is not there.
            UnsoundError: it is something else.
            StorageError: the root cannot be read.
            OSError: there is no room for it.
        """
        if entry.nbytes <= SMALL_NBYTES and self._held_nbytes < HELD_NBYTES:
            content = self._content(entry.key)
            _compare(entry, hashlib.sha256(content).hexdigest(), lambda: self._hold(entry, content))
        else:
            path, sha256 = self._copied(entry.key)
            _compare(entry, sha256, lambda: _rows(path, entry.key))

    def look(self, key: str) -> Path:
        """Copy a file of which nothing is said, and see that it is one of results.

        Args:
            key: the file's key.

        Returns:
            The copy.

        Raises:
            GoneError: it is not there.
            UnsoundError: it is something else.
        """
        path, _ = self._copied(key)
        _rows(path, key)
        return path

    def rows(self, entry: Entry) -> Iterator[pa.Table]:
        """Read a copy, and remove it.

        Args:
            entry: of the file.

        Yields:
            Its rows, batch by batch.
        """
        held = self._dropped(entry.key)
        if held is not None:
            yield held
            return
        path = self._path(entry.key)
        yield from parquet.read(path, TABLES[entry.table])
        path.unlink()

    def columns(self, entry: Entry, names: list[str]) -> pa.Table:
        """Read some columns of a copy; it stays.

        Args:
            entry: of the file.
            names: of the columns.

        Returns:
            Its rows.
        """
        held = self._held.get(entry.key)
        return held[1].select(names) if held is not None else pq.read_table(self._path(entry.key), columns=names)

    def drop(self, entry: Entry) -> None:
        """Remove a copy.

        Args:
            entry: of the file; one that was never taken is no error.
        """
        if self._dropped(entry.key) is None:
            self._path(entry.key).unlink(missing_ok=True)

    def _hold(self, entry: Entry, content: bytes) -> int:
        """Keep the rows of a small file; gives their number."""
        try:
            rows = pa.concat_tables(parquet.read(pa.BufferReader(content), TABLES[entry.table]))
        except (ValueError, OSError) as error:
            raise UnsoundError(entry.key, " ".join(str(error).split())) from None
        with self._lock:
            self._held[entry.key] = entry.nbytes, rows
            self._held_nbytes += entry.nbytes
        count: int = rows.num_rows
        return count

    def _dropped(self, key: str) -> pa.Table | None:
        with self._lock:
            nbytes, rows = self._held.pop(key, (0, None))
            self._held_nbytes -= nbytes
        return rows

    def _content(self, key: str) -> bytes:
        try:
            return self._root.read(key)
        except StorageError as error:
            raise _gone(error, key) from None

    def _copied(self, key: str) -> tuple[Path, str]:
        path = self._path(key)
        try:
            return path, self._root.fetch(key, path)
        except StorageError as error:
            raise _gone(error, key) from None

    def _path(self, key: str) -> Path:
        return self.folder / key.replace("/", "_")


def _gone(error: StorageError, key: str) -> Exception:
    return GoneError(key, "it is missing") if error.status == 404 else error


def _compare(entry: Entry, sha256: str, count: Callable[[], int]) -> None:
    """Hold a file against what is said of it; its rows are counted once its content is known to be whole."""
    if sha256 != entry.sha256:
        raise UnsoundError(entry.key, f"it has sha256 {sha256[:12]}…, and should have {entry.sha256[:12]}…")
    rows = count()
    if rows != entry.rows:
        raise UnsoundError(entry.key, f"it has {rows} rows, and should have {entry.rows}")


def _rows(path: Path, key: str) -> int:
    """Count the rows of a copy, once its columns are known to be those of its table."""
    try:
        with pq.ParquetFile(path) as file:
            parquet.check(file.schema_arrow, TABLES[key.partition("/")[0]])
            rows: int = file.metadata.num_rows
            return rows
    except (ValueError, OSError) as error:
        raise UnsoundError(key, " ".join(str(error).split())) from None
