"""A run in the terminal: a row for each case, with bars where there is room and the terminal can draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.report_changes import Row
from flows.report_data import ReportData
from kernels.phase import Phase
from kernels.progress import digits, duration, durations

_BAR = 12
_WIDE, _MIDDLE, _NARROW = 150, 110, 80


def show(data: ReportData, console: Console) -> None:
    """Print a run.

    Args:
        data: of the run.
        console: where to. Bars need a terminal; colours too, and NO_COLOR turns them off. Below 150 columns intervals
            and notes give way, below 110 the break-even, below 80 all but the steady time.
    """
    for run in data.runs:
        console.print(_headline(run), markup=False, highlight=False)
    plain = not console.is_terminal or console.is_dumb_terminal
    console.print(_table(data, console.width, bars=not plain))
    for line in _remarks(data, console.width >= _WIDE):
        console.print(line, markup=False, highlight=False, soft_wrap=plain)


def _headline(run: Row) -> str:
    words = [f"{run['started_at']:%Y-%m-%d %H:%M} UTC" if run["started_at"] else "", run["matrix"] or ""]
    words += [f"commit {run['commit'][:12]}"] if run["commit"] else []
    words += [f"machine {run['machine']}"] if run["machine"] else []
    return f"run {run['run_id']}: {', '.join(filter(None, words))}"


def _table(data: ReportData, width: int, bars: bool) -> Table:
    wide, middle, narrow = width >= _WIDE, width >= _MIDDLE, width < _NARROW
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold", no_wrap=wide)
    for title in () if narrow else ("first call", "compile"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("steady [95 %]" if wide else "steady", justify="right", no_wrap=True)
    if bars:
        table.add_column("", width=_BAR)
    if not narrow:
        table.add_column(f"x {data.baseline}", justify="right", no_wrap=True)
    if middle:
        table.add_column("break-even", justify="right", no_wrap=True)
    if wide:
        table.add_column("notes", overflow="fold")
    tried = [case for case in data.cases if _timed(case)]
    for _, group in groupby(tried, key=lambda case: (case["kernel"], case["size"], case["panel"])):
        cases = sorted(group, key=lambda case: (case["steady_ns"] is None, case["steady_ns"] or 0, case["case_id"]))
        slowest = max((case["steady_ns"] or 0 for case in cases), default=0)
        for case in cases:
            name, first, compiled, steady = _times(case, wide)
            cells: list[Bar | Text] = [name, steady] if narrow else [name, first, compiled, steady]
            cells += [_bar(case, slowest)] if bars else []
            cells += [] if narrow else [_compared(case)]
            cells += [_calls(case)] if middle else []
            cells += [Text(case["note"])] if wide else []
            table.add_row(*cells, style=None if case["steady_ns"] is not None else "dim")
        table.add_section()
    return table


def _timed(case: Row) -> bool:
    return any(row["median_ns"] is not None for row in case["timings"])


def _times(case: Row, interval: bool) -> Iterator[Text]:
    rows = {row["phase"]: row for row in case["timings"] if row["median_ns"] is not None}
    # A star where there is no room for the note that says what is wrong.
    star = "" if interval or not case["note"] else " *"
    yield Text(f"{case['case_id']}{star}")
    for phase in (Phase.FIRST_CALL, Phase.COMPILE):
        yield Text(duration(rows[phase]["median_ns"]) if phase in rows else "")
    steady = rows.get(Phase.STEADY)
    if steady is None:
        yield Text()
    elif interval and steady["low_ns"] is not None and steady["high_ns"] is not None:
        value, low, high = durations(steady["median_ns"], steady["low_ns"], steady["high_ns"])
        yield Text(f"{value} [{low}, {high}]")
    else:
        yield Text(duration(steady["median_ns"]))


def _bar(case: Row, slowest: float) -> Bar | Text:
    """Draw a steady time beside those of its kernel, size and dtype; what is flagged has none."""
    if case["steady_ns"] is None or not slowest:
        return Text()
    colour = "default" if case["times"] is None else "blue" if case["times"] >= 1 else "yellow"
    return Bar(slowest, 0, case["steady_ns"], color=colour)


def _compared(case: Row) -> Text:
    return Text("" if case["times"] is None else f"{digits(case['times'])}x")


def _calls(case: Row) -> Text:
    if case["calls"] is not None:
        return Text(f"{case['calls']:.0f}")
    return Text("never" if (case["calls_note"] or "").startswith("never") else "")


def _remarks(data: ReportData, notes: bool) -> Sequence[str]:
    """Say what has no row, what is flagged, and the sums."""
    flagged = sum(case["status"] == "ok" and bool(case["note"]) for case in data.cases)
    lines = [""] + [
        f"{failure['cases']} {failure['status']}: {failure['reason']}, such as {failure['example']}"
        for failure in data.failures
    ]
    lines += [f"{flagged} with a flag: the timings that have one are shown, and in no comparison"] if flagged else []
    if not notes and any(case["note"] and _timed(case) for case in data.cases):
        lines.append(f"* has a note: {_WIDE} columns show it, or jitmatrix show in a pipe")
    planned, *counts = (sum(run[name] or 0 for run in data.runs) for name in ("planned", "ok", "failed", "skipped"))
    return [*lines, "{} planned = {} ok + {} failed + {} skipped".format(planned, *counts)]
