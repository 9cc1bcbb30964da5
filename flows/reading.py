"""Results as DuckDB views, from a local folder or S3 alike, without an extension and without a way to write."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from flows import schema
from flows.holdings import THREADS, Held, Holdings, holdings
from flows.layout import PLANS, Kind
from flows.plan import unsound
from flows.storage import Root, StorageError

VIEWS = (Path(__file__).parent / "queries" / "views.sql").read_text(encoding="utf-8")

_DATE = pa.field("date", pa.date32())
_NEEDED = {"timings": {"run_id", "case_id", "phase"}, "runs": {"run_id"}}
_SCHEMAS = {"timings": schema.TIMINGS, "runs": schema.RUNS}
_PLAN = re.compile(rf"{PLANS}[0-9a-f]{{64}}\.parquet")


@dataclass(slots=True)
class Reading:
    """One look at a root: what counts now, behind the views of ``queries/views.sql``.

    Attributes:
        root: of the results.
        connection: to an in-memory database that can reach no file and no network but through the views.
        files: what is read.
        aside: key to the reason why it is not.
        plans: keys of the plans of sweeps.
    """

    root: Root
    connection: duckdb.DuckDBPyConnection
    files: list[Held] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)
    plans: list[str] = field(default_factory=list)

    def damaged(self) -> dict[str, str]:
        """Look for files that are not what they seemed to be by name and size: all of them are read.

        Returns:
            Key to the reason; a file that is gone meanwhile is none.

        Raises:
            StorageError: the storage does not answer.
        """

        def one(file: Held) -> str | None:
            try:
                content = self.root.read(file.key)
            except StorageError as error:
                if error.status != 404:
                    raise
                return None  # a compaction, or a run that goes on, has removed it: the next look does not list it
            if file.entry is not None and hashlib.sha256(content).hexdigest() != file.entry.sha256:
                return "damaged: its sha256 is not the one that its marker says"
            try:
                return _misfit(file, pq.read_table(BytesIO(content)).schema)
            except (pa.ArrowException, OSError) as error:
                return f"damaged: {' '.join(str(error).split())}"

        with ThreadPoolExecutor(2) as pool:
            found = [(file.key, reason) for file, reason in zip(self.files, pool.map(one, self.files), strict=True)]
        found += [(key, unsound(key, self.root.read(key))) for key in self.plans]
        return {key: reason for key, reason in found if reason is not None}


def look(root: Root, without: dict[str, str]) -> Reading:
    """Look at a root: find the files that count, and put them behind the views.

    Args:
        root: of the results.
        without: key to the reason why it is not to be read.

    Returns:
        The reading. Files are opened when a query needs them; by their day, their sizes and their markers they are
        known already.

    Raises:
        StorageError: it cannot be listed or read.
    """
    found = holdings(root, without)
    filesystem, base = root.filesystem()
    _open_unmarked(found, filesystem, base)
    files = [file for _, file in sorted(found.files.items())]
    plans = [stored.key for stored in root.files(PLANS) if _PLAN.fullmatch(stored.key) and stored.key not in without]
    reading = Reading(root, _database(), files, found.aside, plans)
    tables = {
        f"{name}_files": _dataset([file for file in files if file.place.table == name], columns, filesystem, base)
        for name, columns in _SCHEMAS.items()
    }
    unmarked = [file for file in files if file.key in found.unmarked]
    ids = pa.array(sorted({file.place.id for file in unmarked}), pa.string())
    for name, table in (*tables.items(), ("rowless_runs", _rowless(unmarked, filesystem, base))):
        reading.connection.register(name, table)
    reading.connection.register("plans_files", _plans(plans, filesystem, base))
    reading.connection.register("unmarked", pa.table({"run_id": ids}))
    reading.connection.execute(VIEWS)
    return reading


def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            # Without it a name in a query may stand for a variable of this program.
            "python_enable_replacements": False,
            "errors_as_json": True,
        },
    )
    connection.execute("set timezone = 'UTC'")
    return connection


def _dataset(files: list[Held], columns: pa.Schema, filesystem: Any, base: str) -> Any:
    """Make a dataset of files whose days are known: a filter on `date` opens no file of another day."""

    def opened(file: Held) -> pa.Schema:
        # One that cannot be opened or does not fit fails in the query, and is looked at then.
        with suppress(pa.ArrowException, OSError):
            found = pq.read_schema(f"{base}/{file.key}", filesystem=filesystem)
            if _misfit(file, found) is None:
                return found
        return pa.schema([])

    # A later version has columns that are not known here: they are only ever added. Compact files hold any version's.
    later = [
        file
        for file in files
        if (file.version or 0) > schema.VERSION or (file.version is None and file.place.kind is Kind.COMPACT)
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        columns = pa.unify_schemas([_plain(columns), *map(_plain, pool.map(opened, later))])
    columns = columns.insert(0, _DATE)
    if not files:
        return columns.empty_table()
    return ds.FileSystemDataset.from_paths(
        [f"{base}/{file.key}" for file in files],
        schema=columns,
        format=ds.ParquetFileFormat(),
        filesystem=filesystem,
        partitions=[ds.field("date") == pa.scalar(file.place.day) for file in files],
    )


def _plans(keys: list[str], filesystem: Any, base: str) -> Any:
    """Make a dataset of the plans of sweeps."""
    if not keys:
        return schema.PLANS.empty_table()
    paths = [f"{base}/{key}" for key in keys]
    return ds.dataset(paths, schema=_plain(schema.PLANS), format="parquet", filesystem=filesystem)


def _open_unmarked(found: Holdings, filesystem: Any, base: str) -> None:
    """Look into files that no marker vouches for; they are read where their columns are those of results."""

    def one(file: Held) -> str | None:
        try:
            return _misfit(file, pq.read_schema(f"{base}/{file.key}", filesystem=filesystem))
        except FileNotFoundError:
            return ""  # the run goes on, and has taken it back
        except (pa.ArrowException, OSError) as error:
            return f"damaged: {' '.join(str(error).split())}"

    with ThreadPoolExecutor(THREADS) as pool:
        for file, reason in zip(found.unmarked.values(), pool.map(one, found.unmarked.values()), strict=True):
            if reason is None:
                found.files[file.key] = file
            elif reason:
                found.aside[file.key] = reason


def _misfit(file: Held, columns: pa.Schema) -> str | None:
    """Say in what a file's columns are not those of results."""
    table = file.place.table
    lacking = _NEEDED[table] - set(columns.names)
    if lacking:
        return f"foreign: it has no column {min(lacking)}"
    for wanted in _SCHEMAS[table]:
        if wanted.name in columns.names and columns.field(wanted.name).type != wanted.type:
            return f"foreign: its column {wanted.name} is {columns.field(wanted.name).type}, not {wanted.type}"
    return None


def _rowless(unmarked: list[Held], filesystem: Any, base: str) -> pa.Table:
    """Make the rows of runs that have left timings alone: what their first file says of them."""
    with_row = {file.place.id for file in unmarked if file.place.table == "runs"}
    first = {file.place.id: file for file in reversed(unmarked) if file.place.id not in with_row}
    rows = []
    for run_id, file in first.items():
        names = ["measured_at", "machine", "image"]
        of_all = dict.fromkeys(names)
        with suppress(pa.ArrowException, OSError):
            table = pq.read_table(f"{base}/{file.key}", columns=names, filesystem=filesystem, partitioning=None)
            of_all |= next(iter(table.slice(0, 1).to_pylist()), {})
        of_all["started_at"] = of_all.pop("measured_at")
        rows.append({"date": file.place.day, "run_id": run_id, "complete": False, **of_all})
    return pa.Table.from_pylist(rows, schema.RUNS.insert(0, _DATE))


def _plain(columns: pa.Schema) -> pa.Schema:
    """Leave descriptions out, in which versions may differ."""
    return pa.schema([field.remove_metadata() for field in columns])
