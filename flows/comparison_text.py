"""A comparison in words, for logs and the closing lines of a command."""

from __future__ import annotations

from collections.abc import Sequence

from flows.comparison import Compared, Comparison, Left
from kernels.phase import Phase
from kernels.progress import duration
from kernels.statistics import Estimate, Verdict

LISTED = 20
"""Names that a line of a summary holds at most; the table and the files have all."""


def summary(found: Comparison) -> str:
    """Say in one line what was found.

    Args:
        found: the comparison.

    Returns:
        The counts, and the worst case where one is slower or fails now.
    """
    counts = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in Verdict)
    worst = [line(each) for each in found.regressions[:1]] or [f"failing: {each}" for each in found.broken[:1]]
    failing = [f"{len(found.broken)} failing that were ok"] if found.broken else []
    return "; ".join([f"{found.common} of {found.of} cases compared", counts, *failing, *worst])


def lines(found: Comparison) -> list[str]:
    """Say in plain lines what was found.

    Args:
        found: the comparison.

    Returns:
        The sides, coverage, verdicts, what is slower, faster, lost, new or flagged, and the means of all cases.
    """
    text = [*head(found), *(line(each) for each in found.cases if each.decided and each.verdict in DIFFERENT)]
    for name, left in (("lost", found.lost), ("new", found.new), ("flagged", found.flagged)):
        text += names(name, left)
    text += [
        f"{mean.phase}: {ratio(mean.ratio)} (geometric mean of {mean.cases} cases)"
        for mean in found.means
        if mean.group == "all" and mean.phase in found.phases
    ]
    return text


DIFFERENT = (Verdict.SLOWER, Verdict.FASTER)


def head(found: Comparison) -> list[str]:
    """Say what was compared, how much of it, and how many of each verdict there are.

    Args:
        found: the comparison.

    Returns:
        Lines.
    """
    counts = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in Verdict)
    text = [
        f"baseline: {', '.join(map(str, found.baseline))}",
        f"candidate: {', '.join(map(str, found.candidate))}",
        f"compared: {found.common} of {found.of} cases of the baseline"
        f" ({len(found.lost)} lost, {len(found.new)} new; timings that are flagged: {len(found.flagged)})",
        f"{' and '.join(found.phases)}: {counts}, by at least {100 * found.smallest:g} %",
    ]
    return text + [f"DIFFERENT MACHINES, {machines}" for machines in found.machines]


def line(each: Compared) -> str:
    """Say of one case and phase what became of it.

    Args:
        each: the case.

    Returns:
        Verdict, case, phase, ratio, times, and what else changed.
    """
    changes = f"; changed: {', '.join(map(str, each.changes))}" if each.changes else "; nothing else changed"
    times = f"{duration(each.baseline_ns)} → {duration(each.candidate_ns)}"
    return f"{each.verdict}: {each.case_id} {each.phase} {ratio(each.ratio)}, {times}{changes}"


def names(word: str, left: Sequence[Left]) -> list[str]:
    """List what is not compared.

    Args:
        word: lost, new or flagged.
        left: the cases.

    Returns:
        A line each, up to LISTED of them.
    """
    more = [f"{word}: {len(left) - LISTED} more"] if len(left) > LISTED else []
    return [f"{word}: {each}" for each in left[:LISTED]] + more


def between(found: Comparison, phase: Phase) -> str:
    """Say how far two runs of the same thing lie apart.

    Args:
        found: the comparison.
        phase: of the cases.

    Returns:
        Such as ``1.8 % (40 unchanged cases)``; empty where a side has several runs, whose spread is in the tests.
    """
    each = found.between.get(phase)
    if each is None:
        return ""
    known = "not known" if each.deviation is None else f"{100 * each.deviation:.1f} %"
    return f"{known} ({each.controls} unchanged cases)"


def ratio(value: Estimate) -> str:
    """Write a ratio with its interval.

    Args:
        value: candidate / baseline.

    Returns:
        Such as ``1.102x [1.06, 1.15]``.
    """
    return f"{value.value:.3f}x [{value.low:.2f}, {value.high:.2f}]"
