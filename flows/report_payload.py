"""The numbers of a report as its page carries them: columns of cases, their phases and samples, thinned where many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from flows.report_changes import Row
from flows.report_data import ReportData
from kernels.statistics import per_call

COLUMNS = (
    "case_id", "kernel", "framework", "mode", "name", "size", "dims", "dtype", "derivative", "backend", "cold",
    "machine", "workers", "run_id", "status", "panel", "extent", "trace_ns", "lower_ns", "compile_ns", "first_call_ns",
    "retrace_ns", "reload_ns", "steady_ns", "roofline_share", "work_operations", "times", "times_least", "times_most",
    "times_note", "calls",
    "calls_least", "calls_most", "against", "calls_note", "compile_in_calls", "first_call_in_calls", "spread",
    "spread_note", "exponent", "note",
)  # fmt: skip
"""Columns of a case that the page knows."""

TIMING = ("phase", "median_ns", "low_ns", "high_ns", "min_ns", "spread", "rounds", "count", "note", "samples")
"""Columns of a phase of a case."""

_SAMPLES = 160_000
_LEAST, _MOST = 4, 40


def columns(cases: Sequence[Row]) -> dict[str, Any]:
    """Lay cases out by column, strings by number: the same words stand in hundreds of cases.

    Args:
        cases: of the report.

    Returns:
        Column to its values, or to its distinct ``words`` with the ``codes`` of the cases.
    """
    found: dict[str, Any] = {}
    for name in COLUMNS:
        values = [case[name] for case in cases]
        if any(isinstance(value, str) for value in values):
            words = list(dict.fromkeys(values))
            codes = {word: code for code, word in enumerate(words)}
            found[name] = {"words": words, "codes": [codes[value] for value in values]}
        else:
            found[name] = {"values": [_number(value) for value in values]}
    return found


def timings(cases: Sequence[Row]) -> list[list[list[Any]]]:
    """Lay out the phases of cases.

    Args:
        cases: of the report.

    Returns:
        For each case, for each phase, the values of ``TIMING``; samples are nanoseconds per call by round, every so
        many of them where a page of all would be too large, and None where they are not shown.
    """
    rounds = sum(len(row["samples"] or ()) for case in cases for row in case["timings"])
    limit = min(_MOST, max(_LEAST, _SAMPLES // max(rounds, 1)))
    return [[_timing(row, limit) for row in case["timings"]] for case in cases]


def history(data: ReportData) -> dict[str, Any]:
    """Lay out the history of the report's cases.

    Args:
        data: of the report.

    Returns:
        Runs as id, time, commit and version; points as case, run and median, both by their numbers; changes as case,
        first run of the new level, id of the last run of the old one, ratio, its interval, and what else changed.
    """
    cases = {
        (case["case_id"], case["machine"], case["workers"], case["cold"]): at for at, case in enumerate(data.cases)
    }
    runs: dict[str, int] = {}
    told, points = [], []
    for row in data.history:
        if row["run_id"] not in runs:
            runs[row["run_id"]] = len(runs)
            told.append([row["run_id"], _when(row["started_at"]), row["commit"], row["version"]])
        case = cases[row["case_id"], row["machine"], row["workers"], row["cold"]]
        points.append([case, runs[row["run_id"]], _number(row["median_ns"])])
    changes = [
        [cases[key], runs[row["run_id"]], row["before"], *(_number(row[name]) for name in ("ratio", "low", "high")),
         row["changed"]]
        for row in data.changes
        if (key := (row["case_id"], row["machine"], row["workers"], row["cold"])) in cases and row["run_id"] in runs
    ]  # fmt: skip
    return {"runs": told, "points": points, "changes": changes}


def records(data: ReportData) -> tuple[list[Row], list[Row]]:
    """Give the rows that figures are drawn from where nothing is filtered.

    Args:
        data: of the report.

    Returns:
        Cases, each with its number ``id`` and whether it is its kernel's largest in its panel; points of the history.
    """
    cases = [
        {name: _number(case[name]) for name in COLUMNS} | {"id": number, "largest": case["largest"]}
        for number, case in enumerate(data.cases)
    ]
    told = history(data)
    ratios = {(case, run): ratio for case, run, _, ratio, *_ in told["changes"]}
    points = [
        {name: cases[case][name] for name in ("id", "kernel", "name", "panel", "largest")}
        | {"at": told["runs"][run][1], "median_ns": median_ns, "change": ratios.get((case, run))}
        for case, run, median_ns in told["points"]
    ]
    return cases, points


def _timing(row: Row, limit: int) -> list[Any]:
    note = "; ".join(row["flag_reasons"] or row["flags"])
    if row["status"] != "ok":
        note = f"{row['status']}: {row['reason'] or ''}"
    elif row["flags"]:
        note = "; ".join(
            f"{flag}: {why}" for flag, why in zip(row["flags"], row["flag_reasons"] or row["flags"], strict=False)
        )
    values = [_number(row[name]) for name in TIMING[1:8]]
    return [row["phase"], *values, note, _thinned(row, limit)]


def _thinned(row: Row, limit: int) -> list[list[float]] | None:
    if not row["samples"]:
        return None
    return [
        [float(f"{value:.4g}") for value in samples[:: -(-len(samples) // limit) or 1]]
        for samples in per_call(row["samples"], row["inner_calls"])
    ]


def _number(value: Any) -> Any:
    """Leave out digits that nobody can see; seven are kept, three are shown."""
    if isinstance(value, float):
        short = float(f"{value:.7g}")
        return int(short) if short.is_integer() else short
    return _when(value) if isinstance(value, datetime) else value


def _when(value: datetime | None) -> str | None:
    return value.isoformat() if value is not None else None
