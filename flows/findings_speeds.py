"""Who is ahead at equal dtype, what a call that nobody waits for seems to take, and what a result cache is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flows.findings_costs import NOTHING
from flows.findings_data import Findings, Found, Timing
from flows.findings_ratios import Ratio, geometric_mean, ratio
from flows.findings_text import by_mode, cell, counted, estimate, table, times
from flows.pages import code
from kernels.phase import Phase
from kernels.progress import digits, duration, number

QUOTED = "sincos"
"""The kernel of the widely quoted comparison."""

ASYNCHRONOUS = "jax/jit"
"""The framework and mode of it, whose calls return before the result is there."""

CALLS = 1000
"""By which the quoted comparison multiplies one call."""


def against_numpy(found: Findings, framework: str, title: str) -> list[str]:
    """Answer whether NumPy or a framework is ahead, at equal dtype.

    Args:
        found: the cases.
        framework: such as ``jax``.
        title: how it writes itself.

    Returns:
        Lines of Markdown.
    """
    rows, ratios, quoted = [], [], []
    left: Counter[str] = Counter()
    for case in found.cases:
        numpy = found.beside(case, "numpy/eager")
        if case.name.partition("/")[0] != framework or numpy is None:
            continue
        one, two = case.trusted(Phase.STEADY), numpy.trusted(Phase.STEADY)
        if one is None or two is None:
            left[case.name] += Phase.STEADY in case.timings and Phase.STEADY in numpy.timings
            continue
        each = ratio(one, two)
        ahead = {True: "NumPy", False: title, None: "unclear"}[each.longer]
        ratios.append((case.name, each))
        rows.append([cell(case), case.name, times(two), times(one), estimate(each.estimate), ahead])
        if _quoted(case) and case.compiled and case.size == _largest(found, case):
            word = "it is unclear who is ahead" if each.longer is None else f"{ahead} is ahead"
            quoted.append(
                f"- {cell(case)}, {code(case.name)}: {word}; a call takes {times(two)} in NumPy and {times(one)} "
                f"here, {estimate(each.estimate)} times as long."
            )
    lines = [
        f"- {code(name)}: NumPy {counted(each, 'is ahead', title)}; a call takes "
        f"{estimate(geometric_mean(each).estimate)} times as long as in NumPy, by the geometric mean"
        f"{_left(left[name])}."
        for name, each in by_mode(ratios).items()
    ]
    if not lines:
        return [_absent(found, framework, title), ""]
    without = sorted(name for name in left if left[name] and name not in dict(ratios))
    lines += [f"- {code(name)}: no cell may be compared, for a flag or a status that is not ok." for name in without]
    if quoted:
        quoted = ["", f"The widely quoted comparison, {code('sin(x) + cos(x)')} at its largest size:", "", *quoted]
    head = ("case", "mode", "NumPy", title, "times as long", "ahead")
    return [*lines, *quoted, "", *table(head, rows)]


def _left(count: int) -> str:
    return f"; {number(count, 'more cell')} may not be compared, for a flag or a status that is not ok" if count else ""


def _quoted(case: Found) -> bool:
    return case.kernel == QUOTED and not case.own and case.derivative == 0


def _largest(found: Findings, case: Found) -> str:
    """Give the largest size at which a mode was timed; cases lie in the order of their work."""
    same = (case.kernel, case.own, case.name, case.cell[2:])
    return [
        each.size for each in found.cases if (each.kernel, each.own, each.name, each.cell[2:]) == same and each.timings
    ][-1]


def _absent(found: Findings, framework: str, title: str) -> str:
    cases = [case for case in found.cases if case.name.partition("/")[0] == framework]
    timed = [case for case in cases if case.timings]
    beside = [case for case in timed if found.beside(case, "numpy/eager")]
    if timed:
        were = f"{number(len(timed), 'case')} {'was' if len(timed) == 1 else 'were'}"
        why = "none may be compared: the flags and failures stand below" if beside else "NumPy was not beside them"
        return f"{title}: {were} timed, and {why}."
    failed = [case for case in cases if case.status not in ("unavailable", "skipped")]
    if failed:
        return f"{title}: {number(len(failed), 'case')} failed, and none was timed: the reasons stand below."
    missing = next((case.reason for case in cases if case.status == "unavailable" and case.reason), None)
    return f"{title} is not in these runs{f': {missing}' if missing else ''}."


def not_waited_for(found: Findings) -> list[str]:
    """Show what the widely quoted hundredfold is made of.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows, lines = [], []
    earlier: list[bool] = []
    for case in found.cases:
        numpy, returned = found.beside(case, "numpy/eager"), case.timings.get(Phase.ENQUEUE)
        waited = case.timings.get(Phase.STEADY)
        other = numpy.timings.get(Phase.STEADY) if numpy and numpy.status == "ok" else None
        chosen = _quoted(case) and case.name == ASYNCHRONOUS and case.status == "ok"
        if (
            not chosen
            or numpy is None
            or numpy.status != "ok"
            or returned is None
            or waited is None
            or other is None
            or case.size != _largest(found, case)
        ):
            continue
        earlier.append(ratio(returned, waited).longer is False)
        seems, takes = other.median_ns / returned.median_ns, other.median_ns / waited.median_ns
        lines.append(
            f"- {cell(case)}: {CALLS} calls of NumPy take {duration(CALLS * other.median_ns)}. One call of "
            f"{code(case.name)} that is not waited for, times {CALLS}, seems to take "
            f"{duration(CALLS * returned.median_ns)}, {digits(seems)} times as fast; {CALLS} calls that are "
            f"waited for take {duration(CALLS * waited.median_ns)}, {digits(takes)} times as fast."
            f"{_flags(returned, waited, other)}"
        )
        shown = [times(other), times(returned), digits(seems), times(waited), digits(takes)]
        rows.append([cell(case), case.name, *shown])
    if not lines:
        return [NOTHING, ""]
    head = (
        "case",
        "mode",
        "NumPy",
        "until the call returns",
        "it seems so many times as fast",
        "until the result is there",
        "it is so many times as fast",
    )
    cases = number(len(earlier), "case")
    said = [
        "It is widely quoted that compiled `sin(x) + cos(x)` is a hundred times as fast as NumPy's. What is compared",
        "there is one call that nobody waits for, times a thousand, and a thousand calls of NumPy.",
        "A call of compiled JAX code may return before the result is there. Timed until it returns, it takes less than",
        f"until the result is there in {sum(earlier)} of {cases}: multiplied by a thousand, it then",
        "has not the whole work in it. Flags stand in brackets in the table: this ranks nothing.",
        "",
    ]
    return [*said, *lines, "", *table(head, rows)]


def _flags(*timings: Timing) -> str:
    found = sorted({flag for timing in timings for flag in timing.flags})
    return f" Flagged: {', '.join(found)}." if found else ""


def result_cache(found: Findings) -> list[str]:
    """Answer what a result cache is and is not.

    Args:
        found: the cases.

    Returns:
        Lines of Markdown.
    """
    rows: list[list[str]] = []
    hits: list[Ratio] = []
    misses: list[Ratio] = []
    memoised = 0
    for case in found.cases:
        plain = found.beside(case, "python/plain")
        if case.name != "python/lru_cache" or plain is None or case.status != "ok":
            continue
        hit, call = case.timings.get(Phase.STEADY), plain.trusted(Phase.STEADY)
        memoised += hit is not None and "memoised" in hit.flags
        miss, first = case.trusted(Phase.FIRST_CALL), plain.trusted(Phase.FIRST_CALL)
        # The flag says what is looked for here; with any other the time is not trusted.
        if hit is not None and call is not None and hit.flags == ("memoised",):
            hits.append(ratio(hit, call))
        if miss is not None and first is not None:
            misses.append(ratio(miss, first))
        rows.append([cell(case), times(plain.timings.get(Phase.STEADY)), times(hit), times(first), times(miss)])
    if not rows:
        return [NOTHING, ""]
    said = [
        "A result cache remembers answers by their arguments; a compiler remembers programs, and computes each answer.",
        f"So repeats of a call with a cache time a look-up: {memoised} of {number(len(rows), 'case')} carry the flag",
        "`memoised` here, and are ranked with nothing.",
        "",
        *_said("A hit against computing once more", hits, "longer", "less"),
        *_said("The first call with arguments that the cache has not seen", misses, "longer than without", "less"),
        "",
    ]
    head = ("case", "computing", "a hit", "a first call without", "a first call with the cache")
    return [*said, *table(head, rows)]


def _said(what: str, found: Sequence[Ratio], longer: str, shorter: str) -> list[str]:
    if not found:
        return [f"- {what}: no pair of timings may be trusted."]
    mean = estimate(geometric_mean(found).estimate)
    return [f"- {what}: {counted(found, longer, shorter)}; {mean} times as long, by the geometric mean."]
