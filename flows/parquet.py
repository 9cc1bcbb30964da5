"""Parquet files of results: how they are packed, how those of earlier schemas are read, what their rows add up to."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS = 100_000
"""Rows of a row group at most."""

GROUP_NBYTES = 48 << 20
"""Bytes of a row group at most, as Arrow counts them in memory, give or take a table that is written."""

_READ_NBYTES = 1 << 20  # as they are packed; in memory they are several times as large
_GATHERED_NBYTES = 4 << 20


def packing(columns: pa.Schema) -> dict[str, Any]:
    """Say how a file is packed: zstd, samples as differences, text by dictionary.

    Args:
        columns: the schema.

    Returns:
        Arguments of pyarrow's writer.
    """
    # Differences and dictionaries exclude each other, column by column.
    samples = {"samples.list.element.list.element": "DELTA_BINARY_PACKED"} if "samples" in columns.names else None
    text = [column.name for column in columns if pa.types.is_string(column.type)]
    return {"compression": "zstd", "use_dictionary": text, "column_encoding": samples}


def write(path: Path, tables: Iterable[pa.Table], columns: pa.Schema) -> int:
    """Write a file of large row groups.

    Args:
        path: the file.
        tables: its rows, in order.
        columns: their schema, with the metadata for the footer.

    Returns:
        The number of rows.
    """
    rows, waiting, nbytes, count = 0, list[pa.Table](), 0, 0
    with pq.ParquetWriter(path, columns, **packing(columns)) as writer:

        def flush() -> None:
            writer.write_table(pa.concat_tables(waiting).cast(columns), row_group_size=GROUP_ROWS)
            waiting.clear()

        for table in tables:
            if waiting and (nbytes + table.nbytes > GROUP_NBYTES or count + table.num_rows > GROUP_ROWS):
                flush()
                nbytes = count = 0
            waiting.append(table)
            nbytes, count, rows = nbytes + table.nbytes, count + table.num_rows, rows + table.num_rows
        if waiting:
            flush()
    return rows


def read(source: Path | pa.BufferReader, columns: pa.Schema) -> Iterator[pa.Table]:
    """Read a file batch by batch; columns that it was written without are null.

    Args:
        source: the file, or its content.
        columns: the schema to read it as.

    Yields:
        Its rows.

    Raises:
        ValueError: it is no Parquet file, or has columns that are not in the schema.
    """
    with pq.ParquetFile(source, pre_buffer=False) as file:
        found = file.schema_arrow
        check(found, columns)
        there, same = found.names, found.equals(columns)
        # Threads of Arrow's would cost more than they save: most files are small.
        for batch in file.iter_batches(_batch_rows(file.metadata), use_threads=False):
            if same:
                # Column by column, this would take longer than reading a small file does.
                yield pa.Table.from_arrays(batch.columns, schema=columns)
                continue
            arrays = [batch[c.name].cast(c.type) if c.name in there else pa.nulls(len(batch), c.type) for c in columns]
            yield pa.Table.from_arrays(arrays, schema=columns)


def _batch_rows(metadata: Any) -> int:
    nbytes: int = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, rows * _READ_NBYTES // max(nbytes, 1))


def check(found: pa.Schema, columns: pa.Schema) -> None:
    """See that nothing of a file would be lost when it is read by a schema.

    Args:
        found: the file's schema.
        columns: the schema to read it as.

    Raises:
        ValueError: it has other columns.
    """
    others = sorted(set(found.names) - set(columns.names))
    if others:
        raise ValueError(f"it has columns that this version does not know: {', '.join(others)}")
    if not set(found.names) & set(columns.names):
        raise ValueError("it has no column of the results")


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together: what is done to each costs more than its rows do.

    Args:
        tables: of one schema.

    Yields:
        The same rows in the same order, in tables of some megabytes.
    """
    waiting, nbytes = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        nbytes += table.nbytes
        if nbytes >= _GATHERED_NBYTES:
            yield pa.concat_tables(waiting)
            waiting, nbytes = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@functools.cache
def _database() -> Any:
    # Opening one takes longer than hashing a day's rows.
    return duckdb.connect(config={"threads": 1, "memory_limit": "128MB"})


class Checksum:
    """Count and sum of hashes of rows: equal for the same rows in any order, other when one is lost or doubled.

    Attributes:
        rows: number of rows.
        total: sum of their hashes; comparable within one version of DuckDB only, so it is never stored.
    """

    def __init__(self, columns: pa.Schema) -> None:
        """Begin with no rows.

        Args:
            columns: the schema of all rows.
        """
        self.rows, self.total = 0, 0
        self._connection = _database().cursor()
        # To DuckDB's hash, no list and an empty list are the same.
        lists = [f'"{column.name}" is null' for column in columns if pa.types.is_list(column.type)]
        self._query = f"select count(*), sum(hash({', '.join(['given', *lists])})) from given"

    def add(self, rows: pa.Table) -> None:
        """Add rows.

        Args:
            rows: of the schema.
        """
        self._connection.register("given", rows)
        count, total = self._connection.execute(self._query).fetchall()[0]
        self._connection.unregister("given")
        self.rows, self.total = self.rows + count, self.total + int(total or 0)

    def of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Add rows that pass by.

        Args:
            tables: the rows.

        Yields:
            The same.
        """
        for table in tables:
            self.add(table)
            yield table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checksum) and (self.rows, self.total) == (other.rows, other.total)

    __hash__ = None  # type: ignore[assignment]
