"""What compiling costs: the first call, the calls until it pays, and the form in which it is asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from flows.findings_data import PHASES, Findings, Found, Timing
from flows.findings_ratios import Ratio, geometric_mean, ratio
from flows.findings_text import by_mode, cell, counted, estimate, table, times
from flows.pages import code
from kernels.phase import Phase
from kernels.progress import digits, number
from kernels.statistics import Drawn, Estimate, break_even

DECORATED, FUNCTION = "_decorated", "_function"
"""How the names of two kernels end that are one computation in two forms; ``selfcheck/own/forms.py`` has them."""

BEFORE = frozenset({Phase.STARTUP.value, Phase.TRANSFER.value})
"""Phases in which no kernel is called, whatever its form."""

NOTHING = "These runs have nothing that answers it."


def first_call(found: Findings) -> list[str]:
    """Answer whether the first call of compiled code is slower than the first eager one.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows, ratios = [], []
    later: dict[str, list[float]] = {}
    for case, eager in _pairs(found):
        first, other = case.trusted(Phase.FIRST_CALL), eager.trusted(Phase.FIRST_CALL)
        if first is None or other is None:
            continue
        ratios.append((case.name, ratio(first, other)))
        steady = eager.trusted(Phase.STEADY)
        in_calls = [first.median_ns / steady.median_ns] if steady else []
        later.setdefault(case.name, []).extend(in_calls)
        written = [times(first), eager.name, times(other), estimate(ratios[-1][1].estimate)]
        rows.append([cell(case), case.name, *written, times(steady), *(map(digits, in_calls) if steady else [""])])
    lines = [
        f"- {code(name)}: {counted(each, 'longer', 'shorter')}; {estimate(geometric_mean(each).estimate)} times as "
        f"long, by the geometric mean{_later(later[name])}."
        for name, each in by_mode(ratios).items()
    ]
    head = ("case", "mode", "first call", "eager", "its first call", "times as long", "a later eager call", "in those")
    said = [
        "The first call of compiled code against the first eager call, each in a process of its own that has imported",
        "the framework and opened its device. Eager is the framework's own eager mode where it has one, else NumPy.",
        "JAX compiles in eager mode too: each operation by itself, at the first call that has it.",
        "",
    ]
    return [*said, *(lines or [NOTHING]), "", *table(head, rows)]


def _later(in_calls: Sequence[float]) -> str:
    if not in_calls:
        return ""
    count = number(statistics.median(in_calls), "later eager call")
    return f"; as long as {count}, at the median of {number(len(in_calls), 'cell')}"


def calls(found: Findings) -> list[str]:
    """Answer after how many calls compiling has paid for itself.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows: list[list[str]] = []
    words: dict[str, list[float | str]] = {}
    for case, eager in _pairs(found):
        first, steady, other = case.trusted(Phase.FIRST_CALL), case.trusted(Phase.STEADY), eager.trusted(Phase.STEADY)
        if first is None or steady is None or other is None:
            continue
        pays = _pays(first, steady, other)
        words.setdefault(case.name, []).append(pays.value if isinstance(pays, Estimate) else pays)
        shown = estimate(pays) if isinstance(pays, Estimate) else pays
        rows.append([cell(case), case.name, times(first), times(steady), eager.name, times(other), shown])
    lines = [f"- {code(name)}: {_paid(each)}." for name, each in sorted(words.items())]
    said = [
        "Compiled code costs its first call and then a steady call each time; eager code an eager call each time. It",
        "*never* pays where a steady call takes longer than an eager one; it is *unclear* where intervals do not tell.",
        "",
    ]
    head = ("case", "mode", "first call", "a steady call", "eager", "an eager call", "calls until it pays")
    return [*said, *(lines or [NOTHING]), "", *table(head, rows)]


def _pays(first: Timing, steady: Timing, eager: Timing) -> Estimate | str:
    against = ratio(steady, eager)
    if against.longer:
        return "never"
    pays = break_even(*(Drawn.of(each.rounds) for each in (first, steady, eager)))
    # The bootstrap of few rounds is too sure of itself; that of a ratio is not.
    return "unclear" if pays is None or against.longer is None else pays


def _paid(found: Sequence[float | str]) -> str:
    numbers = sorted(each for each in found if not isinstance(each, str))
    between = ""
    if numbers:
        low, middle, high = (digits(each) for each in (numbers[0], statistics.median(numbers), numbers[-1]))
        between = (
            f" after {number(numbers[0], 'call')}"
            if len(numbers) == 1
            else f" after {low} to {high} calls, {middle} at the median"
        )
    of = f"{len(numbers)} of {number(len(found), 'cell')}"
    return f"pays in {of}{between}; never in {found.count('never')}, unclear in {found.count('unclear')}"


def forms(found: Findings) -> list[str]:
    """Answer whether it matters that a function is compiled by a decorator or by a call.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows, programs = list[list[str]](), list[bool]()
    ratios: dict[str, list[Ratio]] = {}
    for case, other in _forms(found):
        if case.program is not None and other.program is not None:
            programs.append(case.program == other.program)
        for phase in PHASES:
            one, two = case.trusted(phase), other.trusted(phase)
            if one is None or two is None or phase in BEFORE:
                continue
            ratios.setdefault(phase, []).append(ratio(one, two))
            written = [times(one), times(two), estimate(ratios[phase][-1].estimate)]
            rows.append([cell(case), case.name, phase, *written])
    if not rows:
        return [NOTHING, ""]
    lines = [
        f"- {code(phase)}: the decorated one takes {counted(ratios[phase], 'longer', 'less')}; "
        f"{estimate(geometric_mean(ratios[phase]).estimate)} times as long, by the geometric mean."
        for phase in PHASES
        if phase in ratios
    ]
    said = ["Pairs of kernels of one body: one has the decorator, the other is given to the compiler as a function."]
    if programs:
        said.append(f"The compiled program is the same text in {sum(programs)} of {number(len(programs), 'pair')}.")
    said.append("")
    return [*said, *lines, "", *table(("case", "mode", "phase", "decorated", "as a function", "ratio"), rows)]


def _forms(found: Findings) -> Iterator[tuple[Found, Found]]:
    for case in found.cases:
        stem = case.kernel.removesuffix(DECORATED)
        for other in found.cases if stem != case.kernel else ():
            if (other.kernel, other.own, other.cell, other.name) == (stem + FUNCTION, case.own, case.cell, case.name):
                yield case, other


def _pairs(found: Findings) -> Iterator[tuple[Found, Found]]:
    """Give what is compiled beside what is not."""
    for case in found.cases:
        eager = found.eager(case) if case.compiled else None
        if eager is not None:
            yield case, eager
