"""What a report says of stored runs: every case with its phases, beside the answers of the ready questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from flows.query import looked
from flows.questions import questions
from flows.references import json_of
from flows.report_changes import Row, changes
from flows.report_scope import choose, narrow
from flows.sides import workers
from flows.storage import Root
from kernels.errors import unknown
from kernels.frameworks import modes
from kernels.phase import Phase

BASELINE = "numpy/eager"
"""Framework and mode that others are compared with, where no other is chosen."""

_CASE = ("case_id", "machine", "workers", "cold")
_CELL = ("kernel", "name", "size", "dtype", "derivative", "backend", "machine", "workers", "cold")
_SERIES = tuple(name for name in _CELL if name != "size")
_HISTORY_RUNS = 100
_HISTORY_POINTS = 40_000

# A join of these answers to their case, and the names that their columns have there.
_BESIDE: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "speed_up": (
        _CELL,
        {"times_faster": "times", "least": "times_least", "most": "times_most", "rank": "rank", "note": "times_note"},
    ),
    "break_even": (
        _CELL,
        {"calls": "calls", "least": "calls_least", "most": "calls_most", "against": "against", "note": "calls_note"},
    ),
    "compile_cost": (_CELL, {"compile_in_calls": "compile_in_calls", "first_call_in_calls": "first_call_in_calls"}),
    "process_spread": (_CASE, {"spread": "spread", "note": "spread_note"}),
    "scaling": (_SERIES, {"exponent": "exponent"}),
}

_TIMINGS = """
    select
        case_id, machine, workers, coalesce(cold, false) as cold, phase, status, reason, median_ns, low_ns, high_ns,
        min_ns, spread, rounds, coalesce(flags, []) as flags, coalesce(flag_reasons, []) as flag_reasons,
        list_sum(list_transform(samples, lambda round: len(round)))::bigint as count,
        if(phase in ('steady', 'first_call', 'compile'), samples, null) as samples, inner_calls,
    from latest
"""

_HISTORY = """
    with whole as (
        select run_id, started_at, try_cast(plan ->> '$.workers' as bigint) as workers, version, commit
        from runs where complete order by started_at desc limit $runs
    )
    select case_id, machine, workers, coalesce(cold, false) as cold, run_id, started_at, commit, version, median_ns,
        low_ns, high_ns
    from timings join whole using (run_id)
    where phase = 'steady' and status = 'ok' and coalesce(len(flags), 0) = 0 and median_ns > 0
    order by started_at desc, run_id, case_id
    limit $points
"""


@dataclass(slots=True)
class ReportData:
    """What is known of the runs of a report.

    Attributes:
        baseline: framework and mode of the speed-ups.
        runs: rows of ``runs``, the newest first.
        cases: rows of ``cases``, with the columns that questions add (times, calls, spread …), and under ``timings``
            the rows of their phases in the order in which they happen.
        means: rows of the question ``speed_up_mean``.
        failures: rows of the question ``failures``, of these runs.
        history: steady medians of these cases in all complete runs of the root, the newest first; trusted ones alone.
        changes: where cases changed for good; see ``flows.report_changes.changes``.
        aside: key to the reason why a stored file was not read.
    """

    baseline: str
    runs: list[Row]
    cases: list[Row]
    means: list[Row]
    failures: list[Row]
    history: list[Row]
    changes: list[Row] = field(default_factory=list)
    aside: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> str:
        """How much it is of, such as ``cases 3, runs 1``."""
        return f"cases {len(self.cases)}, runs {len(self.runs)}"


def gather(
    root: Root, runs: Sequence[str] = (), since: str | None = None, baseline: str = BASELINE, *, history: bool = True
) -> ReportData:
    """Ask stored results all that a report says.

    Args:
        root: of the results.
        runs: references to the runs; see ``choose``.
        since: a time instead.
        baseline: framework/mode that others are compared with.
        history: whether other runs of the root are looked at.

    Returns:
        The answers.

    Raises:
        UsageError: the runs or the baseline cannot be had.
        StorageError: the root cannot be read.
    """
    if baseline not in modes():
        raise unknown("baseline", baseline, modes(), "--baseline")
    chosen = choose(root, runs, since)

    def work(connection: duckdb.DuckDBPyConnection) -> ReportData:
        limits = {"runs": _HISTORY_RUNS, "points": _HISTORY_POINTS}
        earlier = _rows(connection, _HISTORY, limits) if history else []
        ids = chosen or [row["run_id"] for row in _rows(connection, "select distinct run_id from latest")]
        narrow(connection, ids)
        return _gathered(connection, baseline, earlier)

    found, reading = looked(root, work)
    found.aside = reading.aside
    found.changes = changes(root, found.cases, found.history)
    return found


def _gathered(connection: duckdb.DuckDBPyConnection, baseline: str, earlier: list[Row]) -> ReportData:
    cases = _rows(connection, "from cases")
    for name, (key, columns) in _BESIDE.items():
        answers = {_key(row, key): row for row in _answers(connection, name, baseline)}
        for case in cases:
            answer = answers.get(_key(case, key), {})
            case |= {new: answer.get(old) for old, new in columns.items()}
    timings: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(_rows(connection, _TIMINGS), key=lambda row: _order(row["phase"])):
        timings.setdefault(_key(row, _CASE), []).append(row)
    panels = _panels(cases)
    for case in cases:
        case["extent"] = math.prod(value for value in json_of(case["dims"]).values() if isinstance(value, int | float))
        case["panel"] = panels[_key(case, _CASE)]
        case["timings"] = timings.get(_key(case, _CASE), [])
    _mark_largest(cases)
    known = {_key(case, _CASE) for case in cases}
    cases.sort(key=lambda case: (case["kernel"], case["extent"], case["panel"], case["derivative"], case["name"]))
    return ReportData(
        baseline=baseline,
        runs=_rows(connection, "from runs order by started_at desc nulls last, run_id desc"),
        cases=cases,
        means=_answers(connection, "speed_up_mean", baseline),
        failures=_answers(connection, "failures", baseline),
        history=[row for row in earlier if _key(row, _CASE) in known],
    )


def _answers(connection: duckdb.DuckDBPyConnection, name: str, baseline: str) -> list[Row]:
    question = questions()[name]
    values = {parameter: each.default for parameter, each in question.parameters.items()}
    return _rows(connection, question.sql, values | ({"baseline": baseline} if "baseline" in values else {}))


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
    found: list[Row] = connection.sql(sql, params=dict(values) if values else None).to_arrow_table().to_pylist()
    return found


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _order(phase: str) -> int:
    order = [each.value for each in Phase]
    return order.index(phase) if phase in order else len(order)


def _mark_largest(cases: Sequence[Row]) -> None:
    """Mark the cases of each kernel's largest size in their panel: some figures show no others."""
    largest: dict[tuple[str, str], int] = {}
    for case in cases:
        if case["steady_ns"] is not None:
            key = case["kernel"], case["panel"]
            largest[key] = max(largest.get(key, 0), case["extent"])
    for case in cases:
        case["largest"] = case["extent"] == largest.get((case["kernel"], case["panel"]))


def _panels(cases: Sequence[Row]) -> dict[tuple[Any, ...], str]:
    """Name what else than kernel, size, framework and mode tells the cases of this report apart."""
    machines = {case["machine"] for case in cases} - {None}
    several = len({case["backend"] for case in cases}) > 1
    panels = {}
    for case in cases:
        words = [
            case["dtype"],
            f"derivative {case['derivative']}" if case["derivative"] else "",
            case["backend"] if several else "",
            "cold" if case["cold"] else "",
            workers(case["workers"]),
            "" if len(machines) < 2 else f"machine {case['machine']}" if case["machine"] else "no machine",
        ]
        panels[_key(case, _CASE)] = ", ".join(filter(None, words))
    return panels
