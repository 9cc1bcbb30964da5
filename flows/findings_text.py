"""Numbers, tables and counts of the page of findings, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from flows.findings_data import Found, Timing
from flows.findings_ratios import Ratio
from flows.pages import code
from kernels.progress import digits, durations, number
from kernels.statistics import Estimate

OPEN = 12
"""Rows from which on a table is folded."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], title: str = "all of them") -> list[str]:
    """Lay out a table.

    Args:
        head: titles.
        rows: cells, which are Markdown.
        title: of the fold, where there are many rows.

    Returns:
        Lines of Markdown; none without rows.
    """
    if not rows:
        return []
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    if len(rows) > OPEN:
        lines = ["<details>", f"<summary>{title}: {len(rows)} rows</summary>", "", *lines, "", "</details>"]
    return [*lines, ""]


def times(timing: Timing | None) -> str:
    """Write a median with its interval.

    Args:
        timing: what is written; None for a phase that was not timed.

    Returns:
        Such as ``1.93 ms [1.61, 7.99]``, with the flags where it has some; without an interval where it is one process.
    """
    if timing is None:
        return ""
    value, low, high = durations(timing.median_ns, timing.low_ns, timing.high_ns)
    interval = f" [{low}, {high}]" if len(timing.rounds) > 1 else ""
    return f"{value}{interval}{''.join(f' ({flag})' for flag in timing.flags)}"


def estimate(value: Estimate) -> str:
    """Write a number with its interval.

    Args:
        value: the number.

    Returns:
        Such as ``3.1 [2.8, 3.4]``.
    """
    if not math.isfinite(value.high):
        return f"{digits(value.value)} (one process: no interval)"
    return f"{digits(value.value)} [{digits(value.low)}, {digits(value.high)}]"


def cell(case: Found) -> str:
    """Name a case without its framework.

    Args:
        case: the case.

    Returns:
        Kernel, size, dtype, and what else is not as usual.
    """
    _, _, _, derivative, backend, cold, workers = case.cell
    more = [
        f"derivative {derivative}" if derivative else "",
        backend if backend != "cpu" else "",
        "cold" if cold else "",
        "one thread" if workers is not None else "",
    ]
    return ", ".join([f"{code(case.kernel)} {case.size} {case.dtype}", *filter(None, more)])


def counted(found: Iterable[Ratio], longer: str, shorter: str, what: str = "cell") -> str:
    """Count what ratios say.

    Args:
        found: the ratios.
        longer: words for those above 1.
        shorter: words for those below.
        what: one of them.

    Returns:
        Such as ``longer in 3 of 5 cells, shorter in 1, unclear in 1``.
    """
    words = [each.longer for each in found]
    return (
        f"{longer} in {words.count(True)} of {number(len(words), what)}, "
        f"{shorter} in {words.count(False)}, unclear in {words.count(None)}"
    )


def by_mode(found: Iterable[tuple[str, Ratio]]) -> dict[str, list[Ratio]]:
    """Group ratios.

    Args:
        found: framework/mode and ratio.

    Returns:
        The ratios of each.
    """
    groups: dict[str, list[Ratio]] = {}
    for name, each in found:
        groups.setdefault(name, []).append(each)
    return dict(sorted(groups.items()))
