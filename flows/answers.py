"""What a query found, as a table for people, or as CSV, JSON or Parquet for programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from typing import Any, BinaryIO, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich.cells import cell_len

from kernels.errors import UsageError
from kernels.progress import digits, duration

ROWS = 1000
"""Rows that the table for people shows at most; it says how many there are."""


def table(rows: pa.Table, out: TextIO) -> None:
    """Write a table for people: times in their units, three digits.

    Args:
        rows: the rows.
        out: where to.
    """
    columns = rows.column_names
    if columns == ["explain_key", "explain_value"]:
        out.writelines(f"{plan}\n" for plan in rows["explain_value"].to_pylist())
        return
    numeric = [_numeric(field.type) for field in rows.schema]
    shown = [
        [_shown(value, name) for value, name in zip(row, columns, strict=True)] for row in _rows(rows.slice(0, ROWS))
    ]
    widths = [max(map(cell_len, column)) for column in zip(columns, *shown, strict=True)]
    for row in (columns, *shown):
        cells = []
        for text, width, right in zip(row, widths, numeric, strict=True):
            pad = " " * (width - cell_len(text))
            cells.append(pad + text if right else text + pad)
        out.write("  ".join(cells).rstrip() + "\n")
    if rows.num_rows > ROWS:
        out.write(f"the first {ROWS} of {rows.num_rows} rows; --format csv has all\n")


def comma_separated(rows: pa.Table, out: TextIO) -> None:
    """Write CSV: null is empty, lists are JSON.

    Args:
        rows: the rows.
        out: where to.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    for row in _rows(rows):
        plain = map(_plain, row)
        writer.writerow([json.dumps(v, ensure_ascii=False) if isinstance(v, list | dict | bool) else v for v in plain])


def javascript(rows: pa.Table, out: TextIO) -> None:
    """Write a JSON array of objects, a line each; what is not a number is null.

    Args:
        rows: the rows.
        out: where to.
    """
    out.write("[")
    for number, row in enumerate(_rows(rows)):
        found = {name: _plain(value) for name, value in zip(rows.column_names, row, strict=True)}
        out.write((",\n" if number else "\n") + json.dumps(found, ensure_ascii=False, allow_nan=False))
    out.write("\n]\n")


def parquet(rows: pa.Table, out: BinaryIO) -> None:
    """Write a Parquet file.

    Args:
        rows: the rows.
        out: where to.

    Raises:
        UsageError: a column is of a type that Parquet does not have.
    """
    sink = io.BytesIO()  # Parquet wants to know where it is, which a pipe does not
    try:
        pq.write_table(rows, sink, compression="zstd")
    except pa.ArrowException as error:
        raise UsageError(f"--format parquet: {' '.join(str(error).split())}") from None
    out.write(sink.getbuffer())


TEXT: dict[str, Callable[[pa.Table, TextIO], None]] = {"table": table, "csv": comma_separated, "json": javascript}
"""Formats of text, by name."""


def _rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _shown(value: Any, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int) and name.endswith("_ns"):
        return duration(value) if value > 0 else f"{value:g} ns"
    if isinstance(value, float):
        return digits(value) if value >= 0 else f"-{digits(-value)}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return " ".join(str(value).split()) if "\n" in str(value) else str(value)


def _plain(value: Any) -> Any:
    """Give a value as JSON has it: times in ISO 8601, bytes in hexadecimal digits."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return str(value)
