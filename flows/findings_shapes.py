"""What a call at another size costs once code is compiled for one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from flows.findings_costs import NOTHING
from flows.findings_data import Findings, Found, Timing
from flows.findings_ratios import Ratio, geometric_mean, ratio
from flows.findings_text import cell, estimate, table, times
from flows.pages import code
from kernels.phase import Phase
from kernels.progress import digits, duration, number


@dataclass(frozen=True, slots=True)
class _Again:
    """A first call at another size.

    Attributes:
        timing: of it.
        in_calls: steady calls at that size that take as long; None where they were not timed.
        of_first: how many times as long it takes as the first call of a process at that size; None likewise.
    """

    timing: Timing
    in_calls: float | None
    of_first: Ratio | None

    @property
    def compiles(self) -> float | None:
        """Compilations that the framework reported for it; None where it reports none."""
        return None if self.timing.compiles is None else self.timing.compiles / len(self.timing.rounds)


def new_shape(found: Findings) -> list[str]:
    """Answer what a call at another size costs once code is compiled.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows: list[list[str]] = []
    groups: dict[str, list[_Again]] = {}
    for case in found.cases:
        timing = case.trusted(Phase.RETRACE)
        # A kernel of two forms would be in it twice.
        if case.own or not case.compiled or timing is None:
            continue
        other = found.next_size(case)
        again = _again(timing, other)
        groups.setdefault(case.name, []).append(again)
        steady = other.trusted(Phase.STEADY) if other else None
        counts = [
            "" if again.in_calls is None else digits(again.in_calls),
            "" if again.of_first is None else estimate(again.of_first.estimate),
            "" if again.compiles is None else digits(again.compiles),
        ]
        rows.append([cell(case), case.name, case.retrace_size or "", times(timing), times(steady), *counts])
    lines = [f"- {code(name)}: {_said(each)}." for name, each in sorted(groups.items())]
    head = (
        "case",
        "mode",
        "then called at",
        "that call",
        "a steady one there",
        "in those",
        "of a first call there",
        "compilations",
    )
    said = ["The first call at another size, in a process in which the code is compiled and warm for one.", ""]
    return [*said, *(lines or [NOTHING]), "", *table(head, rows)]


def _again(timing: Timing, other: Found | None) -> _Again:
    steady, first = (other.trusted(each) if other else None for each in (Phase.STEADY, Phase.FIRST_CALL))
    return _Again(
        timing, timing.median_ns / steady.median_ns if steady else None, ratio(timing, first) if first else None
    )


def _said(found: Sequence[_Again]) -> str:
    compiles = sorted({each.compiles for each in found if each.compiles is not None})
    program = "its compilations are not reported"
    if compiles:
        most = number(compiles[-1], "compilation")
        between = most if len(compiles) == 1 else f"{digits(compiles[0])} to {most}"
        program = f"{between} for each new size"
    if compiles == [0]:
        # No compilation is no proof of one program: TensorFlow traces a function again, and compiles nothing.
        again = any(each.timing.traces for each in found)
        program = "no compilation is reported" + (", and it is traced again" if again else "")
    middle = duration(statistics.median(each.timing.median_ns for each in found))
    parts = [f"{program}; the call takes {middle} at the median of {number(len(found), 'cell')}"]
    in_calls = [each.in_calls for each in found if each.in_calls is not None]
    of_first = [each.of_first for each in found if each.of_first is not None]
    if in_calls:
        calls = number(statistics.median(in_calls), "steady call")
        parts.append(f"as long as {calls} at that size, at the median of {number(len(in_calls), 'cell')}")
    if of_first:
        mean = estimate(geometric_mean(of_first).estimate)
        parts.append(f"{mean} of a first call at that size, by the geometric mean of {number(len(of_first), 'cell')}")
    return "; ".join(parts)
