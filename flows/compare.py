"""Two sides to verdicts: which cases take longer than before, and which less; nothing of Prefect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flows.changes import of_case, of_runs
from flows.comparison import Compared, Comparison, Left, Mean
from flows.decisions import Spread, Tested, spread, tested, verdict
from flows.group_means import Means
from flows.ratios import interval, units
from flows.sides import Key, Side, load
from flows.storage import Root
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
            machines or have no case in common.
        StorageError: the root cannot be read.
    """
    decided = _phases(phases)
    if not 0 < smallest < 1:
        raise UsageError(f"--smallest {smallest:g}: it is a relative difference, above 0 and below 1, such as 0.05")
    sides = load(root, baseline, backend), load(root, candidate, backend)
    before, after = sides
    if {run.id for run in before.runs} & {run.id for run in after.runs}:
        raise UsageError(f"{before.runs[0].id} is on both sides; name another run, such as latest~1")
    common = before.ok & after.ok
    if not common:
        raise UsageError(_nothing(before, after))
    machines = _machines(before, after, common, across_machines)
    cases, means = _compared(before, after, common, decided, smallest)
    return Comparison(
        tuple(before.runs),
        tuple(after.runs),
        smallest,
        decided,
        machines,
        cases,
        _lost(before, after),
        tuple(sorted(Left(str(key), _why(before, key, "baseline")) for key in after.ok - before.ok)),
        _flagged(before, after, common),
        means,
        len(before.ok),
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


def _lost(before: Side, after: Side) -> tuple[Left, ...]:
    found = [
        Left(str(key), _why(after, key, "candidate"), key in after.rows and after.rows[key]["status"] in _DONE)
        for key in before.ok - after.ok
    ]
    for key, phase in before.timed:
        timed = after.timed.get((key, phase))
        if key in after.ok and timed is None:
            found.append(Left(f"{key} {phase}", "not timed in the candidate"))
    return tuple(sorted(found))


def _flagged(before: Side, after: Side, common: set[Key]) -> tuple[Left, ...]:
    found = []
    for name, side in (("baseline", before), ("candidate", after)):
        for (key, phase), timed in side.timed.items():
            if key in common and timed.flags:
                rest = "; its other runs are compared" if timed.rows else ""
                found.append(Left(f"{key} {phase}", f"{', '.join(timed.flags)} in the {name}{rest}"))
    return tuple(sorted(found))


def _compared(
    before: Side, after: Side, common: set[Key], decided: Sequence[Phase], smallest: float
) -> tuple[tuple[Compared, ...], tuple[Mean, ...]]:
    changed = of_runs(before.runs, after.runs)
    pairs = [
        (key, Phase(phase), timed, after.timed[key, phase])
        for (key, phase), timed in before.timed.items()
        if key in common and timed.rows and (key, phase) in after.timed and after.timed[key, phase].rows
    ]
    means = Means()
    ratios, spreads = [], []
    for key, phase, one, other in pairs:
        ratio, draws = interval(one.runs, other.runs)
        ratios.append(ratio)
        spreads.append(spread(units(one.runs), units(other.runs)))
        means.add(phase, after.rows[key], spreads[-1].difference, draws)
    tests = _tests([phase for _, phase, _, _ in pairs], spreads, decided)
    found = []
    for (key, phase, one, other), ratio, test in zip(pairs, ratios, tests, strict=True):
        row = after.rows[key]
        found.append(
            Compared(
                key,
                phase,
                row["kernel"],
                f"{row['framework']}/{row['mode']}",
                row["backend"],
                phase in decided,
                median([round_ for rounds in one.runs for round_ in rounds]),
                median([round_ for rounds in other.runs for round_ in rounds]),
                ratio,
                test.p_value,
                test.q_value,
                verdict(ratio, test, smallest),
                of_case(one, other, row["framework"], changed),
            )
        )
    return tuple(sorted(found, key=_order)), means.found()


def _tests(phases: Sequence[Phase], spreads: Sequence[Spread], decided: Sequence[Phase]) -> list[Tested]:
    """Test what is decided on as one family, and the rest as another: it must not cost the gate its power."""
    found: dict[int, Tested] = {}
    for inside in (True, False):
        places = [place for place, phase in enumerate(phases) if (phase in decided) is inside]
        tests = tested([spreads[place] for place in places], [phases[place] for place in places])
        found |= dict(zip(places, tests, strict=True))
    return [found[place] for place in range(len(phases))]


def _order(each: Compared) -> tuple[Any, ...]:
    rank = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, Verdict.SAME).index(each.verdict)
    size = abs(float(np.log(each.ratio.value)))
    return (not each.decided, rank, -size if rank < 2 else 0.0, each.key, list(Phase).index(each.phase))
