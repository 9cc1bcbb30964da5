"""Two sides to verdicts: which cases take longer than before, and which less; nothing of Prefect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flows.changes import of_case, of_runs, unchanged
from flows.comparison import Compared, Comparison, Left
from flows.decisions import Between, errors, judge, verdict
from flows.group_means import Means
from flows.ratios import interval, units
from flows.sides import Key, Side, load
from flows.spread import Spread, spread
from flows.storage import Root
from kernels.case import backend as known_backend
from kernels.errors import UsageError, unknown
from kernels.phase import Phase
from kernels.statistics import Verdict, median

GATE = (Phase.STEADY, Phase.FIRST_CALL)
"""Phases that are decided on by default: what a call costs, and what a user waits for first, compilation included."""

SMALLEST = 0.05
"""The least relative difference that matters, by default."""

_DONE = frozenset({"wrong", "failed", "timeout", "killed"})


def compare(
    root: Root,
    baseline: str | Sequence[str],
    candidate: str | Sequence[str],
    *,
    smallest: float = SMALLEST,
    phases: Iterable[str] = GATE,
    across_machines: bool = False,
    backend: str | None = None,
) -> Comparison:
    """Compare two sides, each a run or several.

    Args:
        root: of the results.
        baseline: a reference as ``references.resolve`` takes it, or ids of runs.
        candidate: the same of what is compared with it.
        smallest: the least relative difference that matters.
        phases: that are decided on; the others are compared too, and their verdicts are in no gate.
        across_machines: compare what ran on different machines; it is labelled then.
        backend: compare the cases of this one alone.

    Returns:
        The comparison.

    Raises:
        UsageError: a reference means no complete run, a phase or the difference is none, the sides ran on different
            machines or have no case in common, or none that may be compared.
        StorageError: the root cannot be read.
    """
    decided = _phases(phases)
    if not 0 < smallest < 1:
        raise UsageError(f"--smallest {smallest:g}: it is a relative difference, above 0 and below 1, such as 0.05")
    if backend is not None:
        known_backend(backend, "--backend")
    sides = load(root, baseline, backend), load(root, candidate, backend)
    before, after = sides
    if {run.id for run in before.runs} & {run.id for run in after.runs}:
        raise UsageError(f"{before.runs[0].id} is on both sides; name another run, such as latest~1")
    common = before.ok & after.ok
    if not common:
        raise UsageError(_nothing(before, after))
    machines = _machines(before, after, common, across_machines)
    by_run = len(before.runs) + len(after.runs) > 2
    paired = _paired(before, after, common, by_run)
    if not any(each.phase in decided for each in paired.cases):
        raise UsageError(_nothing_decides(before, after, common, decided))
    cases, between = _judged(paired, decided, smallest, by_run)
    return Comparison(
        baseline=tuple(before.runs),
        candidate=tuple(after.runs),
        smallest=smallest,
        phases=decided,
        machines=machines,
        between=between,
        cases=cases,
        lost=_lost(before, after, common),
        new=tuple(sorted(Left(str(key), _why(before, key, "baseline")) for key in after.ok - common)),
        flagged=_flagged(before, after, common),
        means=paired.means.found(),
        of=len(before.comparable),
    )


def _phases(names: Iterable[str]) -> tuple[Phase, ...]:
    known = [phase.value for phase in Phase]
    for name in (found := list(names)):
        if name not in known:
            raise unknown("phase", name, known, "--phase")
    if not found:
        raise UsageError(f"--phase: name at least one of {', '.join(known)}")
    return tuple(Phase(name) for name in dict.fromkeys(found))


def _nothing(before: Side, after: Side) -> str:
    """Say why no case is in both sides."""
    words = f"no case is ok in both: baseline {before} has {len(before.ok)}, candidate {after} has {len(after.ok)}"
    names = {key.case_id for key in before.ok} & {key.case_id for key in after.ok}
    if names:
        return f"{words}; those of one name differ in size, cold inputs, workers or whose kernel it is: {min(names)}"
    examples = [min(side.ok).case_id for side in (before, after) if side.ok]
    return f"{words} ({', '.join(examples)})" if examples else words


def _nothing_decides(before: Side, after: Side, common: set[Key], decided: Sequence[Phase]) -> str:
    """Say why no timing that decides is compared: a gate that compared nothing must not pass."""
    left = _flagged(before, after, common, decided)
    why = f"{left[0]}; measure them again" if left else "it was not timed in both; --phase names others"
    phases = ", ".join(decided)
    return f"of {len(common)} cases that are ok in both no timing of {phases} may be compared: {why}"


def _machines(before: Side, after: Side, common: set[Key], allowed: bool) -> tuple[str, ...]:
    """Hold the machines of the sides against each other, for each backend."""
    found = []
    for backend in sorted({before.rows[key]["backend"] or "" for key in common}):
        ran = before.machines(backend), after.machines(backend)
        if len(ran[0] | ran[1]) > 1:
            found.append(f"{backend}: {' and '.join(sorted(ran[0]))} → {' and '.join(sorted(ran[1]))}")
    if found and not allowed:
        raise UsageError(
            f"these ran on different machines ({'; '.join(found)}): a difference may be the machine's; "
            "--across-machines compares them all the same, and says so"
        )
    return tuple(found)


def _why(side: Side, key: Key, name: str) -> str:
    row = side.rows.get(key)
    if row is None:
        return f"not in the {name}"
    return f"{row['status']} in the {name}" + (f" ({row['reason']})" if row["reason"] else "")


def _lost(before: Side, after: Side, common: set[Key]) -> tuple[Left, ...]:
    found = [
        Left(str(key), _why(after, key, "candidate"), key in after.rows and after.rows[key]["status"] in _DONE)
        for key in before.ok - common
    ]
    for key, phase in before.timed:
        if key in common and (key, phase) not in after.timed:
            found.append(Left(f"{key} {phase}", "not timed in the candidate", phase=phase))
    return tuple(sorted(found))


def _flagged(before: Side, after: Side, common: set[Key], phases: Sequence[Phase] = tuple(Phase)) -> tuple[Left, ...]:
    found = []
    for name, side in (("baseline", before), ("candidate", after)):
        for (key, phase), timed in side.timed.items():
            if key in common and timed.flags and phase in phases:
                rest = "; its other runs are compared" if timed.rows else ""
                found.append(Left(f"{key} {phase}", f"{', '.join(timed.flags)} in the {name}{rest}", phase=phase))
    return tuple(sorted(found))


@dataclass(slots=True)
class _Paired:
    """The timings of both sides, before anything is decided on them; the lists have a place for each case and phase."""

    cases: list[Compared] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    controls: list[bool] = field(default_factory=list)
    means: Means = field(default_factory=Means)


def _paired(before: Side, after: Side, common: set[Key], by_run: bool) -> _Paired:
    """Put the timings of both sides together, before anything is decided on them."""
    changed = of_runs(before.runs, after.runs)
    found = _Paired()
    for (key, phase), one in before.timed.items():
        other = after.timed.get((key, phase))
        if key not in common or other is None or not one.rows or not other.rows:
            continue
        row, runs = after.rows[key], (one.runs, other.runs)
        ratio, draws = interval(*runs)
        ns, other_ns = (median([round_ for rounds in side for round_ in rounds]) for side in runs)
        mode = f"{row['framework']}/{row['mode']}"
        changes = of_case(one, other, row["framework"], changed)
        case = Compared(key, Phase(phase), row["kernel"], mode, row["backend"], ns, other_ns, ratio, changes)
        found.cases.append(case)
        found.spreads.append(spread(units(runs[0]), units(runs[1]), by_run))
        found.controls.append(unchanged(one, other, changes))
        found.means.add(case, draws)
    return found


def _judged(
    paired: _Paired, decided: Sequence[Phase], smallest: float, by_run: bool
) -> tuple[tuple[Compared, ...], dict[Phase, Between]]:
    """Test what is decided on as one family, and the rest as another: it must not cost the gate its power."""
    cases, spreads = paired.cases, paired.spreads
    uncertain, between = errors(spreads, [each.phase for each in cases], None if by_run else paired.controls)
    found = []
    for inside in (True, False):
        chosen = [place for place, each in enumerate(cases) if (each.phase in decided) is inside]
        tests = judge([spreads[place].difference for place in chosen], [uncertain[place] for place in chosen])
        for place, test in zip(chosen, tests, strict=True):
            each = cases[place]
            word = verdict(each.ratio, test, smallest)
            found.append(replace(each, decided=inside, p_value=test.p_value, q_value=test.q_value, verdict=word))
    return tuple(sorted(found, key=_order)), between


def _order(each: Compared) -> tuple[Any, ...]:
    rank = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, Verdict.SAME).index(each.verdict)
    size = abs(float(np.log(each.ratio.value)))
    return (not each.decided, rank, -size if rank < 2 else 0.0, each.key, list(Phase).index(each.phase))
