"""Copies of stored files in a folder, held against what a marker or a manifest says of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows import parquet, schema
from flows.layout import Entry
from flows.storage import Root, StorageError

TABLES = {"timings": schema.TIMINGS, "runs": schema.RUNS}
"""The schema of each table."""


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
    """Copies of files, named by their keys.

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

    def take(self, entry: Entry) -> Path:
        """Copy a file, and see that it is what is said of it.

        Args:
            entry: what a marker or a manifest says.

        Returns:
            The copy.

        Raises:
            GoneError: it is not there.
            UnsoundError: it is something else.
            StorageError: the root cannot be read.
            OSError: there is no room for it.
        """
        path, sha256 = self._copied(entry.key)
        if sha256 != entry.sha256:
            raise UnsoundError(entry.key, f"it has sha256 {sha256[:12]}…, and should have {entry.sha256[:12]}…")
        rows = _rows(path, entry.key)
        if rows != entry.rows:
            raise UnsoundError(entry.key, f"it has {rows} rows, and should have {entry.rows}")
        return path

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
        path = self._path(entry.key)
        yield from parquet.read(path, TABLES[entry.table])
        path.unlink()

    def drop(self, entry: Entry) -> None:
        """Remove a copy.

        Args:
            entry: of the file; one that was never taken is no error.
        """
        self._path(entry.key).unlink(missing_ok=True)

    def _copied(self, key: str) -> tuple[Path, str]:
        path = self._path(key)
        try:
            return path, self._root.fetch(key, path)
        except StorageError as error:
            if error.status != 404:
                raise
            raise GoneError(key, "it is missing") from None

    def _path(self, key: str) -> Path:
        return self.folder / key.replace("/", "_")


def _rows(path: Path, key: str) -> int:
    """Count the rows of a copy, once its columns are known to be those of its table."""
    try:
        with pq.ParquetFile(path) as file:
            parquet.check(file.schema_arrow, TABLES[key.partition("/")[0]])
            rows: int = file.metadata.num_rows
            return rows
    except (ValueError, OSError) as error:
        raise UnsoundError(key, " ".join(str(error).split())) from None
