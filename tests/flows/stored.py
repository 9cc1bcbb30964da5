"""Runs of real rows as they are stored: Parquet files with their marker last."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows import parquet, schema
from flows.durable import file_sha256, publish
from flows.holdings import holdings
from flows.order import Order
from flows.results import Run, uuid7
from flows.storage import Root, StorageError
from flows.store import Store
from kernels.case import Case
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.selection import Filters

DAY = datetime(2025, 11, 3, 12, tzinfo=UTC)

IDENTITY = ["run_id", "case_id", "phase"]

_EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
_TEMPLATES: list[Run] = []


def new_run(started_at: datetime = DAY) -> Run:
    """Begin a run without looking at the machine again, which takes longer than all the rest."""
    if not _TEMPLATES:
        _TEMPLATES.append(Run(Order.of("smoke", Filters(), {}, "results"), "jitmatrix bench --matrix smoke"))
    return replace(_TEMPLATES[0], id=str(uuid7()), started_at=started_at, complete=True)


def measured(run: Run, cases: int = 3, samples: int = 5) -> list[Measurement]:
    """Make measurements of cases of the suite, with samples of their own."""
    dice = random.Random(run.id)
    found = []
    for number in range(cases):
        mode = modes()[sorted(modes())[number % len(modes())]]
        case = Case(
            ("double", "total")[number % 2], mode.framework, mode.name, "S", f"float{32 + 32 * (number % 3 > 0)}"
        )
        case = replace(case, derivative=0, size=f"S{number // len(modes())}" if number >= len(modes()) else "S")
        rounds = tuple(tuple(dice.randrange(1, 10**7) for _ in range(samples)) for _ in range(2))
        timings = {
            phase: Timing(phase, rounds, (1, 2), _EVENTS, None, {}) for phase in (Phase.FIRST_CALL, Phase.STEADY)
        }
        found.append(Measurement(case, Status.OK, None, (Phase.FIRST_CALL, Phase.STEADY), timings, {}, {}, 2))
    return found


def write_run(folder: Path, run: Run | None = None, cases: int = 3, *, suspended: bool = False) -> Run:
    """Write a run into a root or a spool; without its marker where it is suspended."""
    run = run or new_run()
    measurements = measured(run, cases)
    store = Store(folder, run, None, print)
    for measurement in measurements:
        store.take(measurement)
    (store.suspend if suspended else store.finish)(measurements)
    return run


def rows_of(root: Root) -> Counter[tuple[str, str, str]]:
    """Count the rows that a reader sees, by what there should be one of: run, case and phase."""
    while True:
        found = holdings(root)
        assert not found.missing
        keys = [key for key in (*found.files, *found.unmarked) if key.startswith("timings/")]
        try:
            tables = [pq.read_table(pa.BufferReader(root.read(key)), columns=IDENTITY) for key in keys]
        except StorageError as error:
            assert error.status == 404
            continue  # a compaction has removed what it replaced since
        return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def expected(runs: Iterable[Run], cases: int = 3) -> Counter[tuple[str, str, str]]:
    """Give the rows of runs that were written."""
    return Counter(
        (run.id, measurement.case.id, phase.value)
        for run in runs
        for measurement in measured(run, cases)
        for phase in measurement.planned
    )


def write_wide(folder: Path, files: int, nbytes: int) -> Run:
    """Write a run whose files hold many samples, without making measurements of them first.

    Args:
        folder: the root.
        files: number of files.
        nbytes: of samples in each, as 64-bit integers.

    Returns:
        The run.
    """
    run, rows = new_run(), 64
    day = f"date={run.started_at:%Y-%m-%d}"
    kind = schema.TIMINGS.field("samples").type
    dice = np.random.default_rng(0)
    entries = []
    for number in range(files):
        each = nbytes // 8 // rows
        values = pa.array(dice.integers(1, 10**9, rows * each))
        rounds = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * each, values)
        samples = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), rounds).cast(kind)
        shared = {"run_id": run.id, "phase": "steady"}
        names = [{"kernel": f"k{row % 7}", "case_id": f"{number}-{row}"} for row in range(rows)]
        table = pa.Table.from_pylist([shared | name for name in names], schema=schema.TIMINGS)
        table = table.set_column(table.schema.get_field_index("samples"), schema.TIMINGS.field("samples"), samples)
        entries.append(_written(folder, f"timings/{day}/{run.id}-{uuid7()}.parquet", table, schema.TIMINGS))
    row = pa.Table.from_pylist([{"run_id": run.id}], schema=schema.RUNS)
    entries.append(_written(folder, f"runs/{day}/{run.id}.parquet", row, schema.RUNS))
    marker = {"run_id": run.id, "schema_version": schema.VERSION, "planned": 1, "files": entries}
    publish(folder / f"runs/{day}/_{run.id}.json", json.dumps(marker).encode())
    return run


def _written(folder: Path, key: str, table: pa.Table, columns: pa.Schema) -> dict[str, Any]:
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write(path, [table], columns)
    return {"key": key, "nbytes": path.stat().st_size, "sha256": file_sha256(path), "rows": table.num_rows}
