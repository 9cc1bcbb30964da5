"""Progress: one short line for each finished case, and the count that closes a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kernels.case import Case
from kernels.host_check import Check
from kernels.measurement import Status
from kernels.phase import Phase

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


class Timed(Protocol):
    """What is told of a timing: with its samples, or without."""

    @property
    def median_ns(self) -> float:
        """Median of the rounds' medians, nanoseconds per call."""

    @property
    def flags(self) -> Mapping[str, str]:
        """Reasons not to trust it, with their words."""


class Row(Protocol):
    """What is told of a measurement: whole, or in brief."""

    @property
    def case(self) -> Case:
        """The case."""

    @property
    def status(self) -> Status:
        """How it ended."""

    @property
    def reason(self) -> str | None:
        """Why, where the status is not ok."""

    @property
    def timings(self) -> Mapping[Phase, Timed]:
        """The phases that were timed."""

    @property
    def flags(self) -> Mapping[str, str]:
        """Reasons not to trust any of it, with their words."""


class Tally:
    """Counts the rows of a run: planned = ok + failed + skipped."""

    def __init__(self, planned: int, asked_for: Callable[[Row], bool]) -> None:
        """Begin at zero.

        Args:
            planned: cells of the plan, skips included.
            asked_for: whether the user named what an unavailable row lacks; only then does the row count as failed.
        """
        self._planned, self._asked_for = planned, asked_for
        self._counts: Counter[str] = Counter()
        self._unavailable = 0

    def add(self, row: Row) -> None:
        """Count a row.

        Args:
            row: of any status.
        """
        if row.status is Status.UNAVAILABLE:
            self._unavailable += 1
        self._counts[outcome(row, self._asked_for)] += 1

    @property
    def all_well(self) -> bool:
        """Whether something was measured and nothing failed."""
        return self._counts["ok"] > 0 and self._counts["failed"] == 0

    def line(self, row: Row) -> str:
        """Tell of the row that was counted last.

        Args:
            row: the row.

        Returns:
            Rows so far of those planned, the case, its status, its steady median, and its flags or the reason.
        """
        parts = [f"{self._counts.total()}/{self._planned}", row.case.id, row.status.value]
        if Phase.STEADY in row.timings:
            parts.append(duration(row.timings[Phase.STEADY].median_ns))
        if row.reason:
            parts.append(f"({row.reason})")
        return "  ".join([*parts, *([",".join(flags(row))] if flags(row) else [])])

    def closing(self) -> str:
        """Give the line that closes a run.

        Returns:
            The equation, and how many rows were unavailable.
        """
        sums = " + ".join(f"{name} {self._counts[name]}" for name in ("ok", "failed", "skipped"))
        return f"planned {self._planned} = {sums}" + (
            f" (unavailable {self._unavailable})" if self._unavailable else ""
        )


def outcome(row: Row, asked_for: Callable[[Row], bool]) -> str:
    """Tell which term of planned = ok + failed + skipped a row counts in.

    Args:
        row: of any status.
        asked_for: whether the user named what an unavailable row lacks; only then does the row count as failed.

    Returns:
        ok, failed or skipped.
    """
    if row.status is Status.OK:
        return "ok"
    missing = row.status is Status.UNAVAILABLE and not asked_for(row)
    return "skipped" if missing or row.status is Status.SKIPPED else "failed"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Tell of rows that were settled before anything was measured: a line for each reason, not for each row.

    Args:
        rows: with a reason each.

    Returns:
        Lines such as ``12 unavailable: numba is not installed; pip install numba``.
    """
    counts = Counter((row.status.value, row.reason) for row in rows)
    return [f"{count} {status}: {reason}" for (status, reason), count in counts.items()]


def off(checks: Iterable[Check], command: str) -> str | None:
    """Tell what falsifies timings on this machine, in one line.

    Args:
        checks: as ``kernels.doctor.quick`` gives them.
        command: says how to mend it.

    Returns:
        The line; None where nothing is off.
    """
    found = [f"{check.name}: {check.found}" for check in checks if not check.ok]
    return f"timings may mislead ({'; '.join(found)}); {command} says how to mend it" if found else None


def flags(row: Row) -> list[str]:
    """List the flags that a row's steady timing bears.

    Args:
        row: the row.

    Returns:
        Names of flags of the row and of its steady phase, each once.
    """
    steady = row.timings.get(Phase.STEADY)
    return sorted({*row.flags, *(steady.flags if steady else {})})


def duration(ns: float) -> str:
    """Write a duration with three digits and its unit.

    Args:
        ns: nanoseconds.

    Returns:
        Such as ``1.23 ms``.
    """
    return durations(ns)[0]


def durations(ns: float, *others: float) -> list[str]:
    """Write durations in one unit, which the first one names.

    Args:
        ns: nanoseconds; chooses the unit.
        others: nanoseconds.

    Returns:
        Such as ``["12.3 µs", "11.9", "13"]``.
    """
    # Three digits: 999.6 of a unit is one of the next.
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if ns >= 0.9995 * scale), _UNITS[-1])
    return [f"{digits(ns / scale)} {unit}", *(digits(other / scale) for other in others)]


def digits(value: float) -> str:
    """Write a number with three digits, and never with an exponent where it is large.

    Args:
        value: not negative.

    Returns:
        Such as ``0.25``, ``12.3`` or ``1430``.
    """
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def number(count: float, what: str) -> str:
    """Write how many of something there are.

    Args:
        count: how many.
        what: one of them.

    Returns:
        Such as ``1 cell`` or ``3 cells``.
    """
    written = digits(count)
    return f"{written} {what}{'' if written == '1' else 's'}"
