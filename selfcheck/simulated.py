"""Comparisons whose truth is known: rounds drawn at random, decided on by the functions that decide on real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flows.compare import GATE, SMALLEST
from flows.decisions import errors, judge, verdict
from flows.spread import spread
from kernels.statistics import Estimate, Verdict

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
"""Gives logarithms of round medians: (cases, rounds)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that are compared.

    Attributes:
        rounds: of each case in each run.
        deviation: standard deviation of a round's logarithm: the noise between processes.
        between: standard deviation of what a case is slower or faster by for a whole run.
        cases: in both runs; each has the phases that are decided on by default.
        slowed: cases whose steady phase takes ``factor`` times as long in the second run; something of theirs changed.
        factor: 1.1 is a tenth more.
    """

    rounds: int
    deviation: float = 0.05
    between: float = 0.0
    cases: int = 60
    slowed: int = 0
    factor: float = 1.1


def compared(pair: Pair, rng: np.random.Generator, noise: Noise | None = None) -> list[Verdict]:
    """Draw two runs and compare them.

    Args:
        pair: what is true of them.
        rng: draws.
        noise: of the rounds; None takes the normal distribution.

    Returns:
        The verdicts: steady first, those that are slowed first; then the other phases.
    """

    def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.normal(0.0, pair.deviation, shape)

    draw, spreads = noise or normal, []
    slowed = np.arange(pair.cases) < pair.slowed
    for phase in GATE:
        before, after = (draw(rng, (pair.cases, pair.rounds)) for _ in range(2))
        shift = rng.normal(0.0, pair.between, pair.cases)
        if phase is GATE[0]:
            shift += np.log(pair.factor) * slowed
        spreads += [
            spread([one], [other], by_run=False) for one, other in zip(before, after + shift[:, None], strict=True)
        ]
    phases = [phase for phase in GATE for _ in range(pair.cases)]
    uncertain, _ = errors(spreads, phases, [not each for each in slowed] * len(GATE))
    judgements = judge([each.difference for each in spreads], uncertain)
    found = []
    for each, judgement in zip(spreads, judgements, strict=True):
        ratio = float(np.exp(each.difference))
        found.append(verdict(Estimate(ratio, ratio, ratio), judgement, SMALLEST))
    return found


def alarms(pair: Pair, comparisons: int, seed: int, noise: Noise | None = None) -> float:
    """Count comparisons of runs between which nothing changed, and in which something is called different.

    Args:
        pair: what is true of the runs; nothing is slowed.
        comparisons: how many are made.
        seed: of the draws.
        noise: of the rounds; None takes the normal distribution.

    Returns:
        Their share.
    """
    rng = np.random.default_rng(seed)
    different = {Verdict.SLOWER, Verdict.FASTER}
    return sum(not different.isdisjoint(compared(pair, rng, noise)) for _ in range(comparisons)) / comparisons


def detection(pair: Pair, comparisons: int, seed: int) -> float:
    """Count the slowed cases that are called slower.

    Args:
        pair: what is true of the runs.
        comparisons: how many are made.
        seed: of the draws.

    Returns:
        Their share of all that are slowed.
    """
    rng = np.random.default_rng(seed)
    called = [compared(pair, rng)[: pair.slowed].count(Verdict.SLOWER) for _ in range(comparisons)]
    return sum(called) / (pair.slowed * comparisons)


def two_levels(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw rounds of which one in five is slower by three tenths, as neighbours on a virtual machine make them."""
    slow = rng.random(shape) < 0.2
    found: np.ndarray = np.log1p(0.3) * slow + rng.normal(0.0, 0.01, shape)
    return found


def heavy_tails(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw rounds by Student's t with three degrees of freedom, with a standard deviation of 5 %."""
    found: np.ndarray = 0.05 * rng.standard_t(3, shape) / np.sqrt(3)
    return found


def unlike(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw rounds of cases whose standard deviations lie between 1 and 15 %; each case has one, drawn by its place."""
    deviations = np.exp(np.linspace(np.log(0.01), np.log(0.15), shape[0]))
    return rng.normal(0.0, 1.0, shape) * deviations[:, None]
