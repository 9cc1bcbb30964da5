"""Statistics of rounds and samples: headline, two-level bootstrap, speed-up and break-even.

Rounds are processes. Timings of one process are no independent samples of a case: between-process variance is several
times the within-process variance, and whatever ignores that calls most identical pairs different. Every interval here
resamples rounds first, then samples within each round (two-level, or cluster, bootstrap: Davison and Hinkley,
Bootstrap Methods and their Application, section 3.8).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import median as middle

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


class Verdict(StrEnum):
    """How a candidate's time relates to its baseline's."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    UNCLEAR = "unclear"


def per_call(samples: Sequence[Sequence[int]], inner_calls: Sequence[int]) -> list[list[float]]:
    """Divide totals by their inner call counts.

    Args:
        samples: rounds of total nanoseconds.
        inner_calls: calls in each sample, for each round.

    Returns:
        Nanoseconds per call: rounds of samples.
    """
    return [[ns / calls for ns in round_] for round_, calls in zip(samples, inner_calls, strict=True)]


def median(rounds: Rounds) -> float:
    """Give the headline of a timing without its interval, which costs a thousand draws.

    Args:
        rounds: nanoseconds per call, at least one sample.

    Returns:
        Median of the rounds' medians, nanoseconds per call.
    """
    # Python's median: of so few samples NumPy's takes fifty times as long.
    return float(middle([middle(round_) for round_ in rounds]))


def headline(rounds: Rounds) -> Headline:
    """Summarise a timing.

    Args:
        rounds: nanoseconds per call, at least one sample.

    Returns:
        The headline. With one round the interval holds the noise within a process only, and says too little. The
        percentile interval of a median of n rounds reaches at most from the least to the largest, and these hold the
        true median with 1 - 2 / 2**n: 75 % with 3 rounds, 93.75 % with 5, 99.8 % with 10.
    """
    medians = [float(np.median(round_)) for round_ in rounds]
    return Headline(
        median=_estimate(median(rounds), resampled(rounds)),
        minimum=min(min(round_) for round_ in rounds),
        spread=max(medians) / min(medians) if min(medians) > 0 else 1.0,
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A timing without its samples: all that a comparison with another timing needs of it.

    Attributes:
        value: median of the rounds' medians, nanoseconds per call.
        draws: its bootstrap distribution, as ``resampled`` gives it.
    """

    value: float
    draws: np.ndarray

    @classmethod
    def of(cls, rounds: Rounds) -> Drawn:
        """Draw from a timing.

        Args:
            rounds: nanoseconds per call, at least one sample.

        Returns:
            What stands for it.
        """
        return cls(median(rounds), resampled(rounds))


def resampled(rounds: Rounds, resamples: int = RESAMPLES) -> np.ndarray:
    """Draw the two-level bootstrap distribution of the median of medians.

    Args:
        rounds: nanoseconds per call.
        resamples: number of draws.

    Returns:
        Array (resamples,) of nanoseconds per call, not to be written to. Equal data gives equal draws: the seed comes
        from the data.
    """
    return _resampled(tuple(np.asarray(round_, dtype=np.float64).tobytes() for round_ in rounds), resamples)


@lru_cache(maxsize=32)
def _resampled(rounds: tuple[bytes, ...], resamples: int) -> np.ndarray:
    """Draw once for all that ask for a timing while its row is made: a draw costs more than all else of a row."""
    samples = [np.frombuffer(round_) for round_ in rounds]
    shape = (resamples, len(samples))
    rng = np.random.default_rng(zlib.crc32(b"".join(rounds)))
    # The two levels without a Python loop over draws: samples of every round for each place of a draw, then the round
    # of each place. The medians of rounds that were not chosen are never computed.
    places = [
        rng.integers(0, one.size, size=(*shape, one.size)).astype(np.min_scalar_type(one.size)) for one in samples
    ]
    chosen = rng.integers(0, len(samples), size=shape)
    drawn = np.empty(shape)
    for number, one in enumerate(samples):
        taken = chosen == number
        drawn[taken] = np.median(one[places[number][taken]], axis=1)
    medians = np.asarray(np.median(drawn, axis=1))
    medians.flags.writeable = False
    return medians


def speed_up(timing: Drawn, baseline: Drawn) -> Estimate:
    """Estimate how many times faster a timing is than a baseline.

    Args:
        timing: the timing.
        baseline: what it is compared with.

    Returns:
        baseline / timing: above 1 is faster.
    """
    return _estimate(baseline.value / timing.value, baseline.draws / timing.draws)


def break_even(first_call: Drawn, steady: Drawn, eager: Drawn) -> Estimate | None:
    """Estimate after how many calls compilation has paid for itself.

    n = (first_call - steady) / (eager - steady): compiled costs first_call + (n - 1) · steady, eager n · eager.

    Args:
        first_call: first calls, each of its own process.
        steady: compiled calls.
        eager: eager calls.

    Returns:
        Calls; None where the interval of the denominator holds zero or lies below it: no number of calls pays.
    """
    gain = eager.draws - steady.draws
    low, _ = _interval(gain)
    if low <= 0:
        return None
    value = (first_call.value - steady.value) / (eager.value - steady.value)
    estimate = _estimate(value, (first_call.draws - steady.draws) / gain)
    return Estimate(max(1.0, estimate.value), max(1.0, estimate.low), max(1.0, estimate.high))


def _estimate(value: float, draws: np.ndarray) -> Estimate:
    low, high = _interval(draws)
    return Estimate(value, min(low, value), max(high, value))


def _interval(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)
