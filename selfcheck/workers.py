"""Workers: two pinned ones must have nearly twice the throughput of one, and must not change what is measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from flows.ratios import interval
from kernels.assignment import Assignment, Role
from kernels.case import Case
from kernels.measurement import Outcome
from kernels.schedule import Turn, turns
from kernels.statistics import Rounds
from kernels.timing import Sampling
from kernels.workers import Workers
from selfcheck.figure import Report, at_least, at_most
from selfcheck.interleaved import steady, take
from selfcheck.own import CHAINS, case, chain


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        blocks: how often one worker and two take the same turns, one after the other.
        sampling: of each case in each block.
    """

    blocks: int = 3
    sampling: Sampling = field(default_factory=lambda: Sampling(rounds=6, budget_s=1.2))


QUICK = Settings(1, Sampling(rounds=1, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0))


def measure(settings: Settings) -> Report:
    """Take the same turns by one pinned worker and by two, block by block.

    Args:
        settings: how much.

    Returns:
        The ratio of throughputs, and the largest distance of a steady median between the two.

    Raises:
        UsageError: there are fewer than two cores.
    """
    cases = [*(chain(mode) for mode in CHAINS), *(case(name, "numba/njit", "S") for name in ("sincos", "total"))]
    ordered = turns(cases, settings.sampling)
    walls: dict[int, list[float]] = {1: [], 2: []}
    outcomes: dict[int, dict[Case, list[Outcome]]] = {count: {cell: [] for cell in cases} for count in walls}
    with Workers(1) as one, Workers(2) as two:
        pools = {1: one, 2: two}
        for workers in pools.values():
            # The first turns wait for the fork servers' imports.
            _block(workers, [Turn(cell, number) for number in range(2) for cell in cases], Sampling(1, 0.01))
        for _ in range(settings.blocks):
            for count, workers in pools.items():
                start = time.monotonic()
                for cell, outcome in _block(workers, ordered, settings.sampling):
                    outcomes[count][cell].append(outcome)
                walls[count].append(time.monotonic() - start)
    rounds = {cell: {count: steady(outcomes[count][cell]) for count in walls} for cell in cases}
    ratios = {cell: _median(both[2]) / _median(both[1]) for cell, both in rounds.items()}
    away = max(100 * abs(ratio - 1) for ratio in ratios.values())
    gain = median(alone / together for alone, together in zip(walls[1], walls[2], strict=True))
    certain = {cell: interval([both[1]], [both[2]])[0] for cell, both in rounds.items()}
    return Report(
        (
            at_least("throughput of two pinned workers over that of one", gain, 1.8),
            at_most("largest distance of a steady median by two workers from that by one", away, 3, " %"),
        ),
        (
            f"{len(ordered)} turns took one worker {median(walls[1]):.1f} s, two {median(walls[2]):.1f} s",
            *(
                f"{cell.id}: two workers' median over one's {ratios[cell]:.3f}; ratio of geometric means with its 95 % "
                f"interval {certain[cell].value:.3f} ({certain[cell].low:.3f} to {certain[cell].high:.3f})"
                for cell in cases
            ),
        ),
    )


def _block(workers: Workers, ordered: Sequence[Turn], sampling: Sampling) -> list[tuple[Case, Outcome]]:
    def through(turn: Turn) -> Outcome:
        return take(workers, Assignment(turn.case, Role.STEADY, sampling, turn.round))

    return [(turn.case, outcome) for turn, outcome in workers.take(ordered, through)]


def _median(rounds: Rounds) -> float:
    return median(median(round_) for round_ in rounds)
