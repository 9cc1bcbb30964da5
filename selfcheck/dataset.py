"""Results to measure storage with: rows as runs leave them, samples drawn at random, files as runs write them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows import parquet, schema
from flows.durable import file_sha256, publish
from flows.layout import marker_key
from flows.order import Order
from flows.results import Run, table, uuid7
from flows.store import BATCH_CASES, packed
from kernels.selection import Filters

Rows = list[dict[str, Any]]

_DAY = datetime(2025, 11, 3, 1, tzinfo=UTC)
_MODES = (("numpy", "eager"), ("jax", "eager"), ("jax", "jit"), ("numba", "njit"), ("torch", "compile"))
_SIZES = {"S": 10, "M": 100, "L": 1000, "XL": 10_000}
_DTYPES = ("float32", "float64")
_PHASES = (
    "startup", "transfer", "trace", "lower", "compile", "first_call", "reload", "retrace", "steady", "pipelined",
)  # fmt: skip
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How much a set of results holds.

    Attributes:
        runs: number of runs; each has all cases.
        kernels: number of kernels, of 40 cases and 400 rows each.
        samples: of each row, over 5 rounds.
        seed: of the samples.
    """

    runs: int
    kernels: int
    samples: int = 100
    seed: int = 0

    @property
    def rows(self) -> int:
        """The rows of all runs."""
        return self.runs * self.kernels * len(_MODES) * len(_SIZES) * len(_DTYPES) * len(_PHASES)

    @property
    def values(self) -> int:
        """The samples of all rows."""
        return self.rows * (self.samples // _ROUNDS) * _ROUNDS


def new_runs(count: int) -> Iterator[Run]:
    """Begin runs on a day that is closed, a second apart.

    Args:
        count: number of runs.

    Yields:
        The runs.
    """
    first = Run(Order.of("smoke", Filters(), {}, "results"), None, started_at=_DAY, complete=True)
    for number in range(count):
        yield replace(first, id=str(uuid7()), started_at=_DAY + timedelta(seconds=number))


def batches(run: Run, shape: Shape) -> Iterator[Rows]:
    """Make the rows of a run, as many at a time as a run writes into a file.

    Args:
        run: the run.
        shape: how many.

    Yields:
        Rows, column to value.
    """
    dice = np.random.default_rng([shape.seed, int(run.id.replace("-", "")[-8:], 16)])
    cases = [
        (f"kernel{number}", framework, mode, size, dtype)
        for number in range(shape.kernels)
        for framework, mode in _MODES
        for size in _SIZES
        for dtype in _DTYPES
    ]
    for start in range(0, len(cases), BATCH_CASES):
        chosen = cases[start : start + BATCH_CASES]
        typical = dice.lognormal(14, 1, (len(chosen), len(_PHASES), 1, 1))
        around = dice.lognormal(0, 0.03, (len(chosen), len(_PHASES), _ROUNDS, shape.samples // _ROUNDS))
        samples = (typical * around).astype(np.int64).tolist()
        yield [
            _row(run, case, phase, samples[at][index])
            for at, case in enumerate(chosen)
            for index, phase in enumerate(_PHASES)
        ]


def _row(run: Run, case: tuple[str, str, str, str, str], phase: str, samples: list[list[int]]) -> dict[str, Any]:
    kernel, framework, mode, size, dtype = case
    middle, least = float(np.median(samples[0])), float(min(samples[0]))
    noisy = samples[0][0] % 32 == 0
    return {
        "run_id": run.id, "measured_at": run.started_at, "case_id": f"{kernel}-{framework}-{mode}-{size}-{dtype}-cpu",
        "kernel": kernel, "framework": framework, "mode": mode, "size": size, "dims": f'{{"n": {_SIZES[size]}}}',
        "dtype": dtype, "derivative": 0, "backend": "cpu", "cold": False, "phase": phase, "status": "ok",
        "reason": None,
        "flags": ["noisy"] if noisy else [], "flag_reasons": ["the rounds differ twofold"] if noisy else [],
        "rounds": _ROUNDS, "samples": samples, "inner_calls": [1] * _ROUNDS, "median_ns": middle,
        "low_ns": middle * 0.98, "high_ns": middle * 1.03, "min_ns": least, "spread": 1.05, "traces": 1, "lowerings": 1,
        "compiles": 1, "cache_hits": 0, "cache_misses": 0, "event_ns": None, "work_operations": 1000,
        "work_nbytes": 800,
        "roofline_share": 0.5 if phase == "steady" else None, "output_dtype": dtype, "peak_nbytes": 200 << 20,
        "warmup_calls": 12, "cpu_share": 1.0, "facts": f'{{"called_ns": {samples[0][0]}, "gc": true, "threads": 2}}',
        "machine": run.machine.fingerprint, "image": None,
    }  # fmt: skip


def write(folder: Path, run: Run, rows: Iterable[Rows]) -> float:
    """Write a run as its flow does: a file for each batch, the run's row, the marker last.

    Args:
        folder: the root.
        run: the run.
        rows: of each file.

    Returns:
        Seconds that writing took; those in which ``rows`` were made are not among them.
    """
    day, spent, entries = f"date={run.started_at:%Y-%m-%d}", 0.0, []
    cases: set[str] = set()

    def files() -> Iterator[tuple[str, Rows, pa.Schema]]:
        for batch in rows:
            cases.update(row["case_id"] for row in batch)
            yield f"timings/{day}/{run.id}-{uuid7()}.parquet", batch, schema.TIMINGS
        yield f"runs/{day}/{run.id}.parquet", [_counted(run, len(cases))], schema.RUNS

    for key, batch, columns in files():
        start = time.perf_counter()
        content = packed(table(batch, columns, run))
        sha256 = publish(folder / key, content)
        entries.append({"key": key, "nbytes": len(content), "sha256": sha256, "rows": len(batch)})
        spent += time.perf_counter() - start
    return spent + _marked(folder, run, len(cases), entries)


def write_wide(folder: Path, files: int, nbytes: int) -> None:
    """Write a run of few rows and many samples, straight from random numbers: much data in little time.

    Args:
        folder: the root.
        files: number of files.
        nbytes: of samples in each, as 64-bit integers.
    """
    (run,) = new_runs(1)
    day, rows = f"date={run.started_at:%Y-%m-%d}", 64
    kind, index = schema.TIMINGS.field("samples").type, schema.TIMINGS.get_field_index("samples")
    dice, each = np.random.default_rng(0), nbytes // 8 // rows
    entries = []
    for number in range(files):
        rounds = pa.ListArray.from_arrays(_offsets(rows, each), pa.array(dice.integers(1, 10**9, rows * each)))
        samples = pa.ListArray.from_arrays(_offsets(rows, 1), rounds).cast(kind)
        names = [
            {"run_id": run.id, "phase": "steady", "kernel": f"k{row % 7}", "case_id": f"{number}-{row}"}
            for row in range(rows)
        ]
        content = table(names, schema.TIMINGS, run).set_column(index, schema.TIMINGS.field(index), samples)
        entries.append(_written(folder, f"timings/{day}/{run.id}-{uuid7()}.parquet", content))
    row = _counted(run, files * rows)
    entries.append(_written(folder, f"runs/{day}/{run.id}.parquet", table([row], schema.RUNS, run)))
    _marked(folder, run, files * rows, entries)


def _counted(run: Run, cases: int) -> dict[str, Any]:
    """Make the row of a run all of whose cases are ok."""
    return {**run.row([]), "planned": cases, "ok": cases}


def _marked(folder: Path, run: Run, cases: int, entries: list[dict[str, Any]]) -> float:
    """Write a run's marker; gives the seconds that it took."""
    start = time.perf_counter()
    marker = {"run_id": run.id, "schema_version": schema.VERSION, "planned": cases, "files": entries}
    publish(folder / marker_key(run.started_at.date(), run.id), json.dumps(marker).encode())
    return time.perf_counter() - start


def _written(folder: Path, key: str, content: pa.Table) -> dict[str, Any]:
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write(path, [content], content.schema)
    return {"key": key, "nbytes": path.stat().st_size, "sha256": file_sha256(path), "rows": content.num_rows}


def _offsets(count: int, each: int) -> pa.Array:
    return pa.array(range(0, count * each + 1, each), pa.int32())
