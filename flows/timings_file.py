"""A file of timings that is named by itself, from wherever it comes: what it lacks or has wrong is one line."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows import schema
from flows.storage import Root, StorageError
from kernels.errors import UsageError, unknown
from kernels.phase import Phase

_NEEDED = ("run_id", "case_id", "phase", "status", "flags", "samples", "inner_calls")
_NEVER_NULL = ("run_id", "case_id", "phase")


def is_file(text: str) -> bool:
    """Tell whether a reference names a file.

    Args:
        text: one reference.

    Returns:
        Whether it does.
    """
    return text.endswith(".parquet")


def read_file(root: Root, text: str) -> pa.Table:
    """Read a file of timings.

    Args:
        root: of the results; its key is taken where there is no such file here.
        text: a path, or a key below the root.

    Returns:
        Its rows, with the columns of this version; those that it does not have are null.

    Raises:
        UsageError: there is none, or it is none of timings, or of a version that is not known here.
    """
    path = Path(text)
    try:
        content = path.read_bytes() if path.is_file() else root.read(text)
    except OSError as error:
        raise UsageError(f"{text}: cannot be read ({error.strerror or error})") from None
    except StorageError as error:
        if error.status != 404:
            raise
        raise UsageError(
            f"{text}: there is no such file, here or below {root.address}; give the path of a file of timings"
        ) from None
    try:
        table = pq.read_table(io.BytesIO(content), partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{text}: is no Parquet file ({' '.join(str(error).split())})") from None
    lacking = [name for name in _NEEDED if name not in table.column_names]
    if lacking:
        raise UsageError(f"{text}: has no column {lacking[0]}; give a file of timings")
    footer = (table.schema.metadata or {}).get(b"schema_version", b"")
    version = int(footer) if footer.isdigit() else 0
    if not 1 <= version <= schema.VERSION:
        words = f"version {version} of the schema" if version else "no version of the schema"
        raise UsageError(f"{text}: was written with {words}, this jitmatrix knows {schema.VERSION}")
    columns = [_column(table, column, text) for column in schema.TIMINGS]
    found = pa.Table.from_arrays(columns, names=schema.TIMINGS.names)
    for name in _NEVER_NULL:
        if found[name].null_count:
            raise UsageError(f"{text}: has rows without {name}; give a file of timings")
    known = [phase.value for phase in Phase]
    for phase in found["phase"].unique().to_pylist():
        if phase not in known:
            raise unknown("phase", phase, known, text)
    return found


def _column(table: pa.Table, wanted: pa.Field, text: str) -> pa.ChunkedArray:
    """Give a column in the type of results; nulls where there is none."""
    if wanted.name not in table.column_names:
        return pa.nulls(len(table), wanted.type)
    column = table[wanted.name]
    try:
        return column.cast(wanted.type)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{text}: its column {wanted.name} is {column.type}, not {wanted.type} ({reason})") from None
