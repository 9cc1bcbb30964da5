"""One case over all runs: its times, and where they changed for good; nothing of Prefect.

Change points are found by `ruptures` (Truong, Oudre and Vayatis, Signal Processing 167, 2020): shifts of the mean of
logarithms, by penalised least squares. apache-otava does the same for continuous benchmarking, and cannot be installed
beside this project: it pins NumPy 2.2, and brings clients of BigQuery and Slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np

from flows.changes import Change, of_case, of_runs
from flows.query import looked
from flows.ratios import interval, units
from flows.references import StoredRun, json_of, stored_runs
from flows.sides import COLUMNS, Key, Timed, key_of, unfit
from flows.storage import Root
from kernels.errors import UsageError, unknown
from kernels.phase import Phase
from kernels.statistics import Estimate, median

LEAST_RUNS = 3
"""Runs on each side of a change: one or two may differ by their own spread, and `jitmatrix compare` is for them."""

PENALTY = 5.0
"""Times log n: by simulation, of series of 30 runs without any change one in a hundred has a change point."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a case.

    Attributes:
        run: the run.
        ns: headline, nanoseconds per call.
        timed: its samples and what is stored beside them.
    """

    run: StoredRun
    ns: float
    timed: Timed


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Where a case's time changed for good.

    Attributes:
        before: the last run of the old level.
        after: the first run of the new one.
        ratio: new level over old with its 95 % interval, over all runs of both; above 1 is slower.
        changes: what else is not the same in these two runs, versions and commit among them.
    """

    before: Point
    after: Point
    ratio: Estimate
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class History:
    """A case and phase over the runs of one machine.

    Attributes:
        key: the case.
        mode: framework and mode, such as ``jax/jit``.
        machine: fingerprint of the machine.
        phase: what was timed.
        points: runs that may be trusted, the oldest first.
        changes: change points, the oldest first.
        flagged: runs whose timing carries a flag, or whose samples can be in no ratio: they are in no series.
    """

    key: Key
    mode: str
    machine: str
    phase: Phase
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]
    flagged: int


def histories(root: Root, names: Sequence[str], phase: str = Phase.STEADY, smallest: float = 0.05) -> list[History]:
    """Follow cases over all complete runs.

    Args:
        root: of the results.
        names: of kernels, or ids of cases.
        phase: what was timed.
        smallest: the least relative change that matters.

    Returns:
        A history for each case and machine, by case.

    Raises:
        UsageError: nothing was measured of a name, or the phase is none.
        StorageError: the root cannot be read.
    """
    if phase not in list(Phase):
        raise unknown("phase", phase, [each.value for each in Phase], "--phase")
    runs = {run.id: run for run in stored_runs(root) if run.complete}
    if not runs:
        raise UsageError(f"{root.address}: there is no complete run yet; measure some with jitmatrix bench")
    series: dict[tuple[Key, str], list[tuple[StoredRun, dict[str, Any]]]] = {}
    for row in _rows(root, names, phase):
        if (run := runs.get(row["run_id"])) is not None and row["samples"]:
            key = key_of(row, json_of(run.row.get("plan")).get("workers") or 0)
            series.setdefault((key, row["machine"] or "unknown"), []).append((run, row))
    return [_history(key, machine, Phase(phase), rows, smallest) for (key, machine), rows in sorted(series.items())]


def change_points(levels: np.ndarray, errors: np.ndarray) -> list[int]:
    """Find where a series changes its level for good.

    Args:
        levels: logarithms, in order.
        errors: standard error of each, by its rounds.

    Returns:
        Places of the first value of each new level.
    """
    import ruptures  # type: ignore[import-untyped]

    if levels.size < 2 * LEAST_RUNS:
        return []
    # Neighbours differ by chance, but for the few that a change lies between; never by less than their rounds do.
    steps = np.median(np.abs(np.diff(levels))) / 0.6745 / np.sqrt(2)
    scatter = max(float(steps), float(np.median(errors)), 1e-6)
    # A single run that is off, a spike among its neighbours, is no new level; an edge stays where it is.
    smooth = levels.copy()
    smooth[1:-1] = np.median([levels[:-2], levels[1:-1], levels[2:]], axis=0)
    search = ruptures.KernelCPD(kernel="linear", min_size=LEAST_RUNS).fit((smooth / scatter)[:, None])
    found: list[int] = search.predict(pen=PENALTY * np.log(levels.size))[:-1]
    return found


def _rows(root: Root, names: Sequence[str], phase: str) -> list[dict[str, Any]]:
    """Read the rows of kernels or cases, whatever their flags; a name without any is a mistake."""
    sql = f"select {COLUMNS} from timings where phase = $phase and status = 'ok' and list_contains($names, %s)"

    def work(connection: duckdb.DuckDBPyConnection) -> tuple[list[dict[str, Any]], list[str]]:
        rows: list[dict[str, Any]] = []
        for column in ("kernel", "case_id"):
            asked = connection.sql(sql % column, params={"phase": phase, "names": list(names)})
            rows += asked.to_arrow_table().to_pylist()
        known = connection.sql("select distinct kernel from timings order by 1").fetchall()
        return rows, [name for (name,) in known if name]

    (rows, known), _ = looked(root, work)
    found = {row[column] for row in rows for column in ("kernel", "case_id")}
    for name in names:
        if name not in found:
            raise unknown("kernel or case", name, known, f"jitmatrix history, phase {phase}")
    return list({(row["run_id"], row["case_id"], row["source"]): row for row in rows}.values())


def _history(
    key: Key, machine: str, phase: Phase, rows: Sequence[tuple[StoredRun, dict[str, Any]]], smallest: float
) -> History:
    trusted = [(run, row) for run, row in rows if not row["flags"] and not unfit(row)]
    trusted.sort(key=lambda pair: pair[0].id)
    points = [Point(run, 0.0, Timed([row])) for run, row in trusted]
    points = [replace(point, ns=median(point.timed.runs[0])) for point in points]
    mode = f"{rows[0][1]['framework']}/{rows[0][1]['mode']}"
    return History(key, mode, machine, phase, tuple(points), _changes(points, smallest), len(rows) - len(points))


def _changes(points: Sequence[Point], smallest: float) -> tuple[ChangePoint, ...]:
    """Find the changes of a series that matter; of neighbouring levels that may be the same, one is made."""
    if not points:
        return ()
    rounds = [units(point.timed.runs)[0] for point in points]
    levels = np.array([each.mean() for each in rounds])
    errors = np.array([each.std(ddof=1) / np.sqrt(each.size) if each.size > 1 else 0.0 for each in rounds])
    places = change_points(levels, errors)
    while True:
        while small := [place for place in places if abs(_step(levels, places, place)) < np.log1p(smallest)]:
            places.remove(min(small, key=lambda place: abs(_step(levels, places, place))))
        found = _between(points, places)
        unclear = [
            place for place, change in zip(places, found, strict=True) if change.ratio.low <= 1 <= change.ratio.high
        ]
        if not unclear:
            return found
        places.remove(min(unclear, key=lambda place: abs(_step(levels, places, place))))


def _between(points: Sequence[Point], places: Sequence[int]) -> tuple[ChangePoint, ...]:
    """Compare the levels on both sides of each place."""
    ends = [0, *places, len(points)]
    found = []
    for start, place, end in zip(ends, places, ends[2:], strict=False):
        sides = [[point.timed.runs[0] for point in side] for side in (points[start:place], points[place:end])]
        before, after = points[place - 1], points[place]
        framework = after.timed.rows[0]["framework"]
        changes = of_case(before.timed, after.timed, framework, of_runs([before.run], [after.run]))
        found.append(ChangePoint(before, after, interval(*sides)[0], changes))
    return tuple(found)


def _step(levels: np.ndarray, places: Sequence[int], place: int) -> float:
    """Give the step of the median at a place, between the changes beside it."""
    ends = [0, *places, levels.size]
    number = ends.index(place, 1)
    return float(np.median(levels[place : ends[number + 1]]) - np.median(levels[ends[number - 1] : place]))
