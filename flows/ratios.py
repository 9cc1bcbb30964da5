"""A ratio of two timings with its interval: the bootstrap over runs, rounds and samples, on logarithms.

The ratio is that of geometric means over rounds of each round's median. Rounds are drawn with replacement, and within
each its samples (two-level, or cluster, bootstrap: Davison and Hinkley, Bootstrap Methods and their Application,
section 3.8); where a side has several runs, runs are drawn first. With n units the bootstrap's variance of a mean is
(n - 1)/n times the true one, so that deviations are stretched by the root of n/(n - 1) (Rao and Wu, Journal of the
American Statistical Association 83, 1988), and the ends are taken where Student's t has them rather than the normal
distribution (the expanded percentile interval: Hesterberg, The American Statistician 69, 2015).

No resample of samples is made for its median: the k-th smallest of n uniform numbers, which tells the sample that lies
there, has a beta distribution (David and Nagaraja, Order Statistics, section 2.1), and is drawn at once.
"""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Sequence

import numpy as np

from kernels.statistics import Estimate, Rounds

DRAWS = 2000
"""Draws of a timing's mean."""

RESAMPLES = 500
"""Resamples of the samples of a round, of which draws take theirs: most of what varies lies between rounds."""


def units(runs: Sequence[Rounds]) -> list[np.ndarray]:
    """Reduce timings to what varies independently.

    Args:
        runs: nanoseconds per call, by run and round.

    Returns:
        For each run the logarithms of its rounds' medians.
    """
    # Python's median: NumPy's takes fifty times as long for so few samples.
    return [np.log([statistics.median(round_) for round_ in rounds]) for rounds in runs]


def drawn(runs: Sequence[Rounds]) -> np.ndarray | None:
    """Draw the distribution of a timing's mean logarithm.

    Args:
        runs: nanoseconds per call, by run and round.

    Returns:
        Array (DRAWS,); None where there is one round in all, whose scatter nobody knows. Equal data gives equal draws.
    """
    return _drawn(runs, units(runs))


def _drawn(runs: Sequence[Rounds], logarithms: Sequence[np.ndarray]) -> np.ndarray | None:
    count = _count(logarithms)
    if count < 2:
        return None
    flat = [np.asarray(round_, dtype=np.float64) for rounds in runs for round_ in rounds]
    rng = np.random.default_rng(zlib.crc32(np.concatenate(flat).tobytes()))
    first = np.cumsum([0, *(len(rounds) for rounds in runs)])
    chosen = rng.integers(0, len(runs), size=(DRAWS, len(runs)))
    # Where one run is all there is, there is nothing to choose.
    means = _means(flat, chosen if len(runs) > 1 else chosen[:, :1] * 0, first, rng).mean(axis=1)
    centre = _centre(logarithms)
    stretched: np.ndarray = centre + (means - centre) * np.sqrt(count / (count - 1))
    return stretched


def _count(logarithms: Sequence[np.ndarray]) -> int:
    """Count what varies independently: runs, or rounds where one run is all there is."""
    return len(logarithms) if len(logarithms) > 1 else len(logarithms[0])


def _centre(logarithms: Sequence[np.ndarray]) -> float:
    return float(np.mean([each.mean() for each in logarithms]))


def interval(baseline: Sequence[Rounds], candidate: Sequence[Rounds]) -> tuple[Estimate, np.ndarray | None]:
    """Estimate candidate / baseline.

    Args:
        baseline: nanoseconds per call, by run and round.
        candidate: the same of what is compared with it.

    Returns:
        The ratio, above 1 is slower, with its 95 % interval, which is open where a side has one round; and the draws of
        its logarithm, None there.
    """
    from scipy.special import ndtr, stdtrit  # type: ignore[import-untyped]

    logarithms = [units(side) for side in (baseline, candidate)]
    value = _centre(logarithms[1]) - _centre(logarithms[0])
    before, after = (_drawn(*side) for side in zip((baseline, candidate), logarithms, strict=True))
    if before is None or after is None:
        return Estimate(float(np.exp(value)), 0.0, float("inf")), None
    freedom = sum(_count(side) - 1 for side in logarithms)
    draws = after - before
    return estimate(value, draws, float(ndtr(stdtrit(freedom, 0.025)))), draws


def estimate(value: float, draws: np.ndarray, tail: float = 0.025) -> Estimate:
    """Give a ratio with the interval of its draws.

    Args:
        value: logarithm of the ratio.
        draws: of that logarithm.
        tail: share of draws beyond each end.

    Returns:
        The ratio with its interval, which holds it.
    """
    low, high = np.quantile(draws, (tail, 1 - tail))
    return Estimate(*(float(np.exp(x)) for x in (value, min(low, value), max(high, value))))


def _means(rounds: Sequence[np.ndarray], runs: np.ndarray, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give the mean logarithm of as many rounds as each chosen run has, each drawn of it, with a resample's median."""
    medians = _medians(rounds, rng)
    lengths, each = np.diff(first)[runs], medians.shape[1]
    most = int(lengths.max())
    # A round and one of its medians are drawn at once: a run's lie side by side.
    places = (rng.random((*runs.shape, most)) * (each * lengths)[..., None]).astype(np.intp)
    drawn = np.log(medians).ravel()[places + (each * first[runs])[..., None]]
    means: np.ndarray = (drawn * (np.arange(most) < lengths[..., None])).sum(axis=-1) / lengths
    return means


def _medians(rounds: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Give the medians of RESAMPLES resamples of the samples of each round; the one that there is of a lone sample."""
    sizes = np.array([[each.size] for each in rounds])
    ordered = np.zeros((len(rounds), int(sizes.max())))
    for row, each in zip(ordered, rounds, strict=True):
        row[: each.size] = np.sort(each)
    if (sizes == 1).all():
        return ordered
    lower, places = (sizes + 1) // 2, np.arange(len(rounds))[:, None]
    uniform = rng.beta(lower, sizes - lower + 1, (len(rounds), RESAMPLES))
    low: np.ndarray = ordered[places, np.minimum((sizes * uniform).astype(np.intp), sizes - 1)]
    if (sizes % 2 == 1).all():
        return low
    # The median of an even number is the mean of two: the next larger one is the least of those that are left.
    above = uniform + (1 - uniform) * rng.beta(1, np.maximum(sizes - lower, 1), uniform.shape)
    high = ordered[places, np.minimum((sizes * above).astype(np.intp), sizes - 1)]
    middle: np.ndarray = np.where(sizes % 2 == 1, low, (low + high) / 2)
    return middle
