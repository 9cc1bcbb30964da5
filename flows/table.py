"""The result table for people: a row a case, with what may be compared compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.markup import escape
from rich.table import Table

from flows.brief import Brief, BriefTiming
from kernels.case import Case
from kernels.frameworks import modes
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.progress import digits, duration, durations, flags
from kernels.statistics import Drawn, Estimate, break_even, speed_up


def result_table(measurements: Sequence[Brief], intervals: bool = True) -> Table:
    """Lay out measurements.

    Args:
        measurements: of every cell; those that were skipped, and those that nothing could be tried of, have no row
            here: there may be hundreds, and what is printed after the table counts them by reason.
        intervals: whether there is room for the 95 % intervals.

    Returns:
        A table: first call, compile, steady median with its 95 % interval, speed-up over NumPy at the same dtype, and
        break-even calls with their interval. A flagged row is shown, and is in no comparison.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", no_wrap=True)
    bounds = " [95 %]" if intervals else ""
    for title in ("first call", "compile", f"steady{bounds}", "x numpy", f"break-even{bounds}"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("notes")
    before = None
    for measurement, cells in written(measurements, intervals):
        case = measurement.case
        group = (case.kernel, case.size, case.dtype, case.derivative)
        if before not in (None, group):
            table.add_section()
        before = group
        # A failure's reason is a program's words: brackets in it are no markup.
        table.add_row(*map(escape, cells))
    return table


def written(measurements: Sequence[Brief], intervals: bool = True) -> Iterator[tuple[Brief, list[str]]]:
    """Write out the rows of the result table.

    Args:
        measurements: of every cell.
        intervals: whether 95 % intervals are written.

    Yields:
        Each measurement that something could be tried of, with its cells: case, first call, compile, steady, x numpy,
        break-even and notes.
    """
    by_case = {measurement.case: measurement for measurement in measurements}
    for measurement in sorted(measurements, key=_order):
        if measurement.timings or measurement.status not in (Status.SKIPPED, Status.UNAVAILABLE):
            yield measurement, _cells(measurement, by_case, intervals)


def _order(measurement: Brief) -> tuple[object, ...]:
    case = measurement.case
    size = (case.size != "S", case.size != "M")
    return (case.kernel, *size, case.dtype, case.derivative, case.framework != "numpy", case.id)


def _cells(measurement: Brief, by_case: Mapping[Case, Brief], intervals: bool) -> list[str]:
    timings, case = measurement.timings, measurement.case
    steady = timings.get(Phase.STEADY)
    return [
        case.id,
        _middle(timings.get(Phase.FIRST_CALL)),
        _middle(timings.get(Phase.COMPILE)),
        _bounded(steady.median, intervals, durations) if steady else "",
        _times(measurement, by_case),
        _calls(measurement, by_case, intervals),
        _notes(measurement),
    ]


def _peer(case: Case, by_case: Mapping[Case, Brief], framework: str, mode: str) -> Drawn | None:
    """Find the steady timing of the same cell in another framework, where it may be trusted."""
    other = by_case.get(replace(case, framework=framework, mode=mode))
    return other.timings[Phase.STEADY].drawn if other is not None and other.trusted else None


def _times(measurement: Brief, by_case: Mapping[Case, Brief]) -> str:
    baseline, steady = _peer(measurement.case, by_case, "numpy", "eager"), measurement.timings.get(Phase.STEADY)
    if baseline is None or steady is None or steady.drawn is None or measurement.case.framework == "numpy":
        return ""
    return f"{digits(speed_up(steady.drawn, baseline).value)}x"


def _calls(measurement: Brief, by_case: Mapping[Case, Brief], intervals: bool) -> str:
    """Compare with the framework's own eager mode, or with NumPy where it has none."""
    case = measurement.case
    first, steady = (measurement.timings.get(phase) for phase in (Phase.FIRST_CALL, Phase.STEADY))
    own = f"{case.framework}/eager" in modes()
    eager = _peer(case, by_case, case.framework if own else "numpy", "eager")
    if Phase.COMPILE not in measurement.planned or first is None or first.flags or steady is None or eager is None:
        return ""
    if first.drawn is None or steady.drawn is None:
        return ""
    calls = break_even(first.drawn, steady.drawn, eager)
    return "never" if calls is None else _bounded(calls, intervals, lambda *calls: [f"{n:.0f}" for n in calls])


def _notes(measurement: Brief) -> str:
    status = [] if measurement.status is Status.OK else [f"{measurement.status.value}: {measurement.reason}"]
    others = [
        f"{phase.value}: {flag}"
        for phase in (Phase.FIRST_CALL, Phase.COMPILE)
        if phase in measurement.timings
        for flag in measurement.timings[phase].flags
    ]
    return "; ".join([*status, *flags(measurement), *others])


def _middle(timing: BriefTiming | None) -> str:
    return duration(timing.median_ns) if timing else ""


def _bounded(estimate: Estimate, intervals: bool, write: Callable[..., list[str]]) -> str:
    value, low, high = write(estimate.value, estimate.low, estimate.high)
    return f"{value} [{low}, {high}]" if intervals else value
