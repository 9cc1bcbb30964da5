"""What else changed between the two sides of a comparison, beside the time of a case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flows.references import StoredRun, json_of
from flows.sides import Timed
from kernels.frameworks import frameworks

CLOCK = 0.05
"""Relative change of a clock from which it is named: less is jitter."""

_CLOCKS = {"cpu_mhz": "processor's clock", "gpu_mhz": "device's clock"}
_SETTINGS = ("python", "operating_system", "driver", "governor", "cpu_quota", "memory_limit_nbytes", "affinity")
_SAMPLING = ("rounds", "budget_s", "min_sample_ms")
_SHORT = 12
_COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that the two sides do not share.

    Attributes:
        name: of it, such as ``jax``, ``XLA_FLAGS`` or ``program``.
        before: its value in the baseline.
        after: its value in the candidate.
    """

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after}"


def of_runs(baseline: Sequence[StoredRun], candidate: Sequence[StoredRun]) -> list[Change]:
    """Say what two sets of runs do not share.

    Args:
        baseline: its runs.
        candidate: its runs.

    Returns:
        The changes of versions, variables, settings, sampling and commit; of what a side has not stored, none.
    """
    before, after = ([_facts(run) for run in runs] for runs in (baseline, candidate))
    if not all(before) or not all(after):
        return []  # a file says nothing of its runs
    names = dict.fromkeys(name for facts in (*before, *after) for name in facts)
    return [
        change
        for name in names
        if (change := _change(name, *([facts[name] for facts in side if name in facts] for side in (before, after))))
    ]


def of_case(baseline: Timed, candidate: Timed, framework: str, runs: Iterable[Change]) -> tuple[Change, ...]:
    """Say what changed for one case and phase.

    Args:
        baseline: its timings.
        candidate: its timings.
        framework: of the case.
        runs: what the runs do not share, as ``of_runs`` gives it.

    Returns:
        The changes: first the compiled program, the kernel's file, image and machine; then those of the runs, without
        the versions of other frameworks; then clocks.
    """
    found = []
    for name, column, length in (
        ("program", "program_hash", _SHORT),
        ("kernel's file", "source_sha256", _SHORT),
        ("image", "image", None),
        ("machine", "machine", None),
    ):
        values = ([(row[column] or "none")[:length] for row in side.rows] for side in (baseline, candidate))
        found.append(_change(name, *values))
    foreign = _foreign(framework)
    found += [change for change in runs if change.name not in foreign]
    found += [_clock(name, fact, baseline, candidate) for fact, name in _CLOCKS.items()]
    return tuple(change for change in found if change is not None)


def unchanged(baseline: Timed, candidate: Timed, changes: Iterable[Change]) -> bool:
    """Tell whether nothing changed that could change the time of a case: it is a control then.

    Args:
        baseline: its timings.
        candidate: its timings.
        changes: of the case, as ``of_case`` gives them.

    Returns:
        Whether that is so. Clocks are the machine's state of the hour, and sampling is how it was measured; another
        commit of jitmatrix leaves a compiled program alone whose text is the same.
    """
    harmless = {*_CLOCKS.values(), *_SAMPLING}
    if all(row["program_hash"] for side in (baseline, candidate) for row in side.rows):
        harmless.add(_COMMIT)
    return all(change.name in harmless for change in changes)


def _facts(run: StoredRun) -> dict[str, str]:
    """Give what is stored of a run and bears on its timings, as text by name."""
    environment, plan = json_of(run.row.get("environment")), json_of(run.row.get("plan"))
    facts: dict[str, Any] = dict(environment.get("versions") or {})
    facts |= {name: value for name, value in environment.items() if name in _SETTINGS}
    # What a side has not set differs from any value of the other.
    facts |= environment.get("variables") or {}
    facts |= environment.get("case_variables") or {}
    facts |= {name: value for name, value in (plan.get("sampling") or {}).items() if name in _SAMPLING}
    commit = run.row.get("commit")
    if commit:
        facts[_COMMIT] = commit[:_SHORT] + (" with changes" if run.row.get("dirty") else "")
    return {
        name.replace("_", " ") if name in _SETTINGS else name: _text(value)
        for name, value in facts.items()
        if value is not None
    }


def _change(name: str, before: Iterable[str], after: Iterable[str]) -> Change | None:
    sides = [sorted(set(side)) for side in (before, after)]
    if sides[0] == sides[1]:
        return None
    return Change(name, *(" or ".join(side) or "none" for side in sides))


def _clock(name: str, fact: str, baseline: Timed, candidate: Timed) -> Change | None:
    means = []
    for side in (baseline, candidate):
        read = [json_of(row["facts"]).get(fact) for row in side.rows]
        known = [float(value) for value in read if isinstance(value, int | float)]
        if not known:
            return None
        means.append(sum(known) / len(known))
    if min(means) <= 0 or max(means) / min(means) - 1 <= CLOCK:
        return None
    return Change(name, *(f"{mean:.0f} MHz" for mean in means))


def _foreign(framework: str) -> set[str]:
    """Name the distributions that belong to other frameworks; NumPy bears on all."""
    adapters = frameworks()
    own = set(adapters[framework].DISTRIBUTIONS) if framework in adapters else set()
    others = {
        name for key, adapter in adapters.items() if key not in (framework, "numpy") for name in adapter.DISTRIBUTIONS
    }
    return others - own


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
