"""Statistics of rounds and samples: headline, two-level bootstrap, break-even, and whether two cases differ.

Rounds are processes. Timings of one process are no independent samples of a case: between-process variance is several
times the within-process variance, and whatever ignores that calls most identical pairs different. Every interval here
resamples rounds first, then samples within each round (two-level, or cluster, bootstrap: Davison and Hinkley,
Bootstrap Methods and their Application, section 3.8).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Rounds = Sequence[Sequence[float]]
"""Nanoseconds per call: rounds of samples."""

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; its unit is that of what was estimated."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Headline:
    """What stands for a timing.

    Attributes:
        median: median of the rounds' medians with its two-level bootstrap interval, nanoseconds per call.
        minimum: the least sample of all rounds, nanoseconds per call.
        spread: largest over smallest median of a round.
    """

    median: Estimate
    minimum: float
    spread: float


def per_call(samples: Sequence[Sequence[int]], inner_calls: Sequence[int]) -> list[list[float]]:
    """Divide totals by their inner call counts.

    Args:
        samples: rounds of total nanoseconds.
        inner_calls: calls in each sample, for each round.

    Returns:
        Nanoseconds per call: rounds of samples.
    """
    return [[ns / calls for ns in round_] for round_, calls in zip(samples, inner_calls, strict=True)]


def headline(rounds: Rounds) -> Headline:
    """Summarise a timing.

    Args:
        rounds: nanoseconds per call, at least one sample.

    Returns:
        The headline. With one round the interval holds the noise within a process only, and says too little.
    """
    medians = [float(np.median(round_)) for round_ in rounds]
    return Headline(
        median=_estimate(float(np.median(medians)), resampled(rounds)),
        minimum=min(min(round_) for round_ in rounds),
        spread=max(medians) / min(medians) if min(medians) > 0 else 1.0,
    )


def resampled(rounds: Rounds, resamples: int = RESAMPLES) -> np.ndarray:
    """Draw the two-level bootstrap distribution of the median of medians.

    Args:
        rounds: nanoseconds per call.
        resamples: number of draws.

    Returns:
        Array (resamples,) of nanoseconds per call. Equal data gives equal draws: the seed comes from the data.
    """
    seed = zlib.crc32(np.concatenate([np.asarray(r, dtype=np.float64) for r in rounds]).tobytes())
    rng = np.random.default_rng(seed)
    # One draw of samples per round and resample, then rounds chosen among them: the two levels, without a Python loop.
    medians = np.stack(
        [np.median(rng.choice(np.asarray(r), size=(resamples, len(rounds), len(r))), axis=2) for r in rounds], axis=2
    )
    chosen = rng.integers(0, len(rounds), size=(resamples, len(rounds)))
    drawn = np.take_along_axis(medians, chosen[:, :, None], axis=2)[:, :, 0]
    return np.asarray(np.median(drawn, axis=1))


def speed_up(rounds: Rounds, baseline: Rounds) -> Estimate:
    """Estimate how many times faster a timing is than a baseline.

    Args:
        rounds: nanoseconds per call.
        baseline: nanoseconds per call of what it is compared with.

    Returns:
        baseline / rounds: above 1 is faster.
    """
    value = headline(baseline).median.value / headline(rounds).median.value
    return _estimate(value, resampled(baseline) / resampled(rounds))


def break_even(first_call: Rounds, steady: Rounds, eager: Rounds) -> Estimate | None:
    """Estimate after how many calls compilation has paid for itself.

    n = (first_call - steady) / (eager - steady): compiled costs first_call + (n - 1) · steady, eager n · eager.

    Args:
        first_call: nanoseconds of first calls, each of its own process.
        steady: nanoseconds per compiled call.
        eager: nanoseconds per eager call.

    Returns:
        Calls; None where the interval of the denominator holds zero or lies below it: no number of calls pays.
    """
    gain = resampled(eager) - resampled(steady)
    low, _ = _interval(gain)
    if low <= 0:
        return None
    middle = {name: headline(r).median.value for name, r in (("f", first_call), ("s", steady), ("e", eager))}
    value = (middle["f"] - middle["s"]) / (middle["e"] - middle["s"])
    draws = (resampled(first_call) - resampled(steady)) / gain
    estimate = _estimate(value, draws)
    return Estimate(max(1.0, estimate.value), max(1.0, estimate.low), max(1.0, estimate.high))


def _estimate(value: float, draws: np.ndarray) -> Estimate:
    low, high = _interval(draws)
    return Estimate(value, min(low, value), max(high, value))


def _interval(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)
