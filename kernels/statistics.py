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
from enum import StrEnum

import numpy as np

Rounds = Sequence[Sequence[float]]
"""Nanoseconds per call: rounds of samples."""

RESAMPLES = 1000

CERTAINTY = 0.99
"""Confidence at which two timings are called different: of identical pairs, at most one in a hundred is."""


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
    return float(np.median([np.median(round_) for round_ in rounds]))


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
    return _estimate(median(baseline) / median(rounds), resampled(baseline) / resampled(rounds))


def verdict(baseline: Rounds, candidate: Rounds, smallest: float = 0.05) -> tuple[Estimate, Verdict]:
    """Tell whether a candidate takes another time than its baseline.

    The rounds are the independent units: each gives the logarithm of its median, and Welch's t-test, which does not
    presume equal variances, compares the two means (Welch, Biometrika 34, 1947). A test alone would call differences
    that nobody cares about, so a difference must also reach ``smallest``. Heavy tails make the test miss, not lie:
    by simulation with 5 rounds each, at most 0.8 % of identical pairs are called different, whatever the noise (with 2
    or 3 rounds, 2 % where processes fall on two levels, for so few can agree by chance);
    a tenth is found in 100, 87 and 24 % of pairs where rounds scatter by 1, 3 and 6 %. A permutation test of 5 and 5
    rounds can reach 99 % by complete separation alone, and finds less.

    Args:
        baseline: nanoseconds per call, at least one round.
        candidate: nanoseconds per call of what is compared with it.
        smallest: the least relative difference that matters.

    Returns:
        candidate / baseline, above 1 is slower, with its 95 % interval; and the verdict: faster or slower at 99 %
        confidence and by at least ``smallest``, same where the interval lies within ``smallest`` of 1, else unclear.
        With one round on either side there is no scatter to judge by: the interval is open and the verdict unclear.
    """
    before, after = (np.log([np.median(round_) for round_ in rounds]) for rounds in (baseline, candidate))
    difference = float(after.mean() - before.mean())
    errors = np.array([x.var(ddof=1) / x.size if x.size > 1 else np.inf for x in (before, after)])
    error = float(np.sqrt(errors.sum()))
    if not np.isfinite(error):
        return Estimate(float(np.exp(difference)), 0.0, float("inf")), Verdict.UNCLEAR
    parts = errors**2 / (np.array([before.size, after.size]) - 1)
    freedom = errors.sum() ** 2 / parts.sum() if error > 0 else float(before.size + after.size - 2)
    reach = error * _student(0.95, freedom)
    ratio = Estimate(*(float(np.exp(difference + shift)) for shift in (0.0, -reach, reach)))
    matters = np.log1p(smallest)
    if abs(difference) >= matters and abs(difference) > error * _student(CERTAINTY, freedom):
        return ratio, Verdict.SLOWER if difference > 0 else Verdict.FASTER
    return ratio, Verdict.SAME if abs(difference) + reach < matters else Verdict.UNCLEAR


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
    compiled = resampled(steady)
    gain = resampled(eager) - compiled
    low, _ = _interval(gain)
    if low <= 0:
        return None
    value = (median(first_call) - median(steady)) / (median(eager) - median(steady))
    draws = (resampled(first_call) - compiled) / gain
    estimate = _estimate(value, draws)
    return Estimate(max(1.0, estimate.value), max(1.0, estimate.low), max(1.0, estimate.high))


def _estimate(value: float, draws: np.ndarray) -> Estimate:
    low, high = _interval(draws)
    return Estimate(value, min(low, value), max(high, value))


def _interval(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def _student(confidence: float, freedom: float) -> float:
    """Give the value that Student's t stays within; with t = sqrt(f) tan(a) its density is a power of a cosine."""
    angle = np.linspace(0.0, np.pi / 2, 4097)
    density = np.cos(angle) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return float(np.sqrt(freedom) * np.tan(np.interp(confidence, area / area[-1], angle)))
