"""Sort more rows than fit into memory: sorted parts on disk, merged by what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

PART_NBYTES = 32 << 20
"""Bytes of rows, as Arrow counts them, that are sorted in memory at once."""

_BATCH_NBYTES = 1 << 20  # of each part, this much is in memory while they are merged
_KEY = "__key"


def in_order(tables: Iterable[pa.Table], columns: Sequence[str], folder: Path) -> Iterator[pa.Table]:
    """Sort rows by columns of text; peak memory is three times a part, and a megabyte for each part of the whole.

    Args:
        tables: the rows, of one schema.
        columns: to sort by; null comes first, as empty text does.
        folder: for the parts, an empty one; they take about the space of the rows in memory.

    Yields:
        The rows in order, in tables of about a megabyte.
    """
    parts = [_written(part, folder / f"{number}.arrow") for number, part in enumerate(_parts(tables, columns))]
    yield from _merged([_Part(path) for path in parts])


def _parts(tables: Iterable[pa.Table], columns: Sequence[str]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    nbytes = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(_with_key(table, columns))
        nbytes += table.nbytes
        if nbytes >= PART_NBYTES:
            yield _ordered(waiting)
            waiting, nbytes = [], 0
    if waiting:
        yield _ordered(waiting)


def _with_key(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    # One text that compares as the columns do one after the other: no name has a character below the separator.
    keys = pc.binary_join_element_wise(*(pc.fill_null(table[name], "") for name in columns), "\x00")
    return table.append_column(_KEY, keys)


def _ordered(tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    return table.take(pc.sort_indices(table[_KEY]))


def _written(table: pa.Table, path: Path) -> Path:
    rows = max(1, table.num_rows * _BATCH_NBYTES // max(table.nbytes, 1))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        # A batch of one chunk: a reader that takes it holds nothing else.
        for batch in table.combine_chunks().to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path


class _Part:
    """What is left of a sorted part; its first rows are in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "rb")
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0
        self.rows: pa.Table | None = None
        self.advance()

    @property
    def last(self) -> str:
        """The key of the last row in memory."""
        key: str = self.rows[_KEY][-1].as_py()  # type: ignore[index]
        return key

    def advance(self) -> None:
        """Take the next batch, and give the file up after the last."""
        if self._next == self._reader.num_record_batches:
            self.rows = None
            self._file.close()
            self._path.unlink()
        else:
            self.rows = pa.Table.from_batches([self._reader.get_batch(self._next)])
            self._next += 1

    def up_to(self, bound: str) -> pa.Table:
        """Take the rows in memory whose keys are not above a bound."""
        assert self.rows is not None
        count = pc.sum(pc.less_equal(self.rows[_KEY], bound)).as_py()
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        if not self.rows.num_rows:
            self.advance()
        return taken


def _merged(parts: list[_Part]) -> Iterator[pa.Table]:
    while parts:
        # All rows up to the least of the last keys are in memory; those equal to it in a later batch may follow.
        bound = min(part.last for part in parts)
        yield _ordered([part.up_to(bound) for part in parts]).drop_columns([_KEY])
        parts = [part for part in parts if part.rows is not None]
