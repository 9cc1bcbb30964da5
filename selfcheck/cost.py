"""Cost: what the harness takes beside what it measures, and what the fork server saves against plain interpreters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from kernels.assignment import Assignment, Role
from kernels.case import Case, Matrix
from kernels.discovery import suite
from kernels.frameworks import modes
from kernels.isolation import Isolation
from kernels.measurement import Measurement, Outcome
from kernels.phase import Phase
from kernels.run import Run
from kernels.schedule import Runner
from kernels.timing import Sampling
from selfcheck.figure import Figure, Report, at_least, at_most
from selfcheck.interleaved import NotMeasuredError, take
from selfcheck.interpreter import FreshInterpreter
from selfcheck.own import case

STAGES = (Phase.TRACE, Phase.LOWER, Phase.COMPILE)


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        matrix: the run whose time is accounted for: kernels, frameworks and sizes.
        sampling: of that run, and the seed of all.
        repeats: processes of each assignment, by fork server and by plain interpreter.
        cases: JAX cases of the comparison of cases per minute,
        budget_s: with this much steady sampling each.
    """

    matrix: Matrix = field(
        default_factory=lambda: Matrix(
            "selfcheck",
            ("dense", "sincos", "double"),
            ("numpy/eager", "numba/njit", "jax/eager", "jax/jit"),
            ("S",),
            ("float32",),
        )
    )
    sampling: Sampling = field(default_factory=Sampling)
    repeats: int = 7
    cases: int = 20
    budget_s: float = 0.2


QUICK = Settings(
    Matrix("selfcheck", ("double",), ("numpy/eager", "jax/jit"), ("S",), ("float32",)),
    Sampling(rounds=1, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0),
    repeats=1,
    cases=1,
    budget_s=0.01,
)


def measure(settings: Settings) -> Report:
    """Account for a run's time, and run the same assignments by fork server and by plain interpreter.

    Args:
        settings: how much.

    Returns:
        Overheads and ratios; the fork server's effect on each phase stands in the notes.
    """
    accounted, notes = _account(settings)
    figures = list(accounted)
    fresh = FreshInterpreter()
    with Isolation() as forks:
        for mode in ("jax/jit", "numba/njit"):
            # The smallest compilation, so that it is the process that counts.
            cell = case("double", mode, "S")
            # The first fork waits for the server's imports.
            take(forks, _once(cell, Role.FIRST_CALL, settings))
            outcomes = _both(forks, fresh, _once(cell, Role.FIRST_CALL, settings), settings.repeats)
            walls = {way: median(outcome.wall_ns for outcome in found) for way, found in outcomes.items()}
            what = f"{cell.id}, a process and its first call: a fresh interpreter's cost over a fork's"
            figures.append(at_least(what, walls["fresh"] / walls["fork"], 5))
            notes.append(f"{cell.id}, a process and its first call: {_ways(walls)}")
            for kernel in ("double", "dense"):
                notes += _phases(case(kernel, mode, "S"), forks, fresh, settings)
    figures.append(_rate(settings, fresh))
    return Report(tuple(figures), tuple(notes))


def _account(settings: Settings) -> tuple[Sequence[Figure], list[str]]:
    """Measure a matrix as ``python -m kernels`` does, and see where the time went."""
    run = Run(settings.matrix.expand(suite(), modes()), settings.sampling)
    rows: list[Measurement] = []
    outcomes: list[Outcome] = []
    start = time.monotonic_ns()
    run.measure(rows.append, processes=lambda _, of_case: outcomes.extend(of_case))
    wall = time.monotonic_ns() - start
    for row in rows:
        if row.reason:
            raise NotMeasuredError(f"{row.case.id} is {row.status.value}: {row.reason}")
    called, opened = (sum(int(o.facts.get(name, 0)) for o in outcomes) for name in ("called_ns", "open_ns"))
    own = sum(outcome.harness_ns for outcome in outcomes)
    rest = wall - called - opened - own
    overhead = median(outcome.harness_ns for outcome in outcomes) / 1e6
    steady = median(outcome.harness_ns for outcome in outcomes if outcome.role is Role.STEADY) / 1e6
    return (
        at_most("harness overhead of a process, median", overhead, 100, " ms"),
        at_least(
            "share of a run's wall time in which the framework compiles, is warmed or is timed",
            100 * called / wall,
            60,
            " %",
        ),
    ), [
        f"the run: {len(rows)} cases, {len(outcomes)} processes, {wall / 1e9:.1f} s: {100 * called / wall:.0f} % "
        f"measuring, {100 * opened / wall:.0f} % opening devices, {100 * own / wall:.0f} % the harness in processes, "
        f"{100 * rest / wall:.0f} % between them (fork servers' start; startup and roofline, once a run)",
        f"harness overhead of a steady process, median: {steady:.0f} ms",
    ]


def _once(cell: Case, role: Role, settings: Settings) -> Assignment:
    """Make the shortest assignment: it is compiling and the process that count."""
    seed = settings.sampling.seed
    return Assignment(
        cell, role, Sampling(1, 0.01, min_sample_ms=0.1, warmup_ms=0.0, warmup_calls=1, seed=seed), round=1
    )


def _both(forks: Runner, fresh: Runner, assignment: Assignment, repeats: int) -> dict[str, list[Outcome]]:
    """Run an assignment by fork and by fresh interpreter, by turns."""
    outcomes: dict[str, list[Outcome]] = {"fork": [], "fresh": []}
    for _ in range(repeats):
        for way, runner in (("fork", forks), ("fresh", fresh)):
            outcomes[way].append(take(runner, assignment))
    return outcomes


def _phases(cell: Case, forks: Runner, fresh: Runner, settings: Settings) -> list[str]:
    """Time each one-time phase both ways: what the fork server has loaded is part of the method."""
    lines = []
    for role, phases in ((Role.STEADY, STAGES), (Role.FIRST_CALL, (Phase.FIRST_CALL,))):
        outcomes = _both(forks, fresh, _once(cell, role, settings), settings.repeats)
        for phase in phases:
            times = {
                way: [r.samples[0] for outcome in found for r in outcome.readings if r.phase is phase]
                for way, found in outcomes.items()
            }
            if times["fork"]:
                lines.append(f"{cell.id}, {phase.value}: {_ways({way: median(ns) for way, ns in times.items()})}")
    return lines


def _ways(ns: Mapping[str, float]) -> str:
    fork, fresh = ns["fork"] / 1e6, ns["fresh"] / 1e6
    return f"{fork:.1f} ms by fork, {fresh:.1f} ms by a fresh interpreter, fork over fresh {fork / fresh:.2f}"


def _rate(settings: Settings, fresh: FreshInterpreter) -> Figure:
    """Measure JAX cases both ways by turns; the fork server's start counts."""
    matrix = Matrix("rate", tuple(suite()), ("jax/jit", "jax/eager"), dtypes=())
    cells = [cell for cell in matrix.expand(suite(), modes()).cases if cell.size != "L"][: settings.cases]
    sampling = Sampling(rounds=1, budget_s=settings.budget_s, seed=settings.sampling.seed)
    walls = {"fork": 0, "fresh": 0}
    with Isolation() as forks:
        for cell in cells:
            for way, runner in (("fork", forks), ("fresh", fresh)):
                walls[way] += take(runner, Assignment(cell, Role.STEADY, sampling)).wall_ns
    minute = {way: 60e9 * len(cells) / wall for way, wall in walls.items()}
    what = f"JAX cases a minute, {minute['fork']:.0f} by fork server over {minute['fresh']:.0f} by plain subprocess"
    return at_least(what, minute["fork"] / minute["fresh"], 2)
