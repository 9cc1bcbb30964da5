"""Which of many differences are real: the spread that was measured, pooled over cases, and the false discovery rate.

The rounds, and where a side has several runs the runs, are the independent units; each gives the logarithm of its
median. With five of them a case's own variance is hardly known, and a test must ask for much. The cases of a comparison
together say how variances are distributed, and the moderated t-test (Smyth, Statistical Applications in Genetics and
Molecular Biology 3, 2004) adds what they say as further degrees of freedom: as many as the cases resemble each other.
Which of many p-values count is decided by the step-up procedure of Benjamini and Hochberg (Journal of the Royal
Statistical Society B 57, 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.statistics import Estimate, Verdict

FALSE_DISCOVERIES = 0.01
"""Share of false ones among the differences that are called; where there is none, the chance that any is called."""

Units = Sequence[np.ndarray]
"""Logarithms of round medians: an array for each run."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What a pair of timings says of its own scatter.

    Attributes:
        difference: candidate's mean less baseline's, of logarithms.
        variance: of one round, as this pair shows it; NaN where it shows nothing.
        freedom: degrees of freedom of that variance.
        scale: what to multiply the variance with for that of the difference.
    """

    difference: float
    variance: float
    freedom: int
    scale: float


@dataclass(frozen=True, slots=True)
class Tested:
    """One difference after its test.

    Attributes:
        p_value: chance of so large a difference where there is none; None where no scatter is known.
        q_value: the least rate of false discoveries at which it is called.
    """

    p_value: float | None
    q_value: float | None


def verdict(ratio: Estimate, test: Tested, smallest: float) -> Verdict:
    """Give the verdict on one difference.

    Args:
        ratio: candidate / baseline.
        test: of the difference, among all that are decided on with it.
        smallest: the least relative difference that matters.

    Returns:
        Slower or faster where the difference is at least ``smallest`` and is called at the rate of false discoveries;
        same where the interval lies within it, on both sides (two one-sided tests, at 2.5 %); else unclear.
    """
    matters = 1 + smallest
    different = test.q_value is not None and test.q_value <= FALSE_DISCOVERIES
    if different and ratio.value >= matters:
        return Verdict.SLOWER
    if different and ratio.value <= 1 / matters:
        return Verdict.FASTER
    return Verdict.SAME if 1 / matters < ratio.low and ratio.high < matters else Verdict.UNCLEAR


def spread(baseline: Units, candidate: Units) -> Spread:
    """Read the scatter of a pair.

    Args:
        baseline: its rounds, by run.
        candidate: its rounds, by run.

    Returns:
        The spread.
    """
    sides = [np.concatenate(list(side)) for side in (baseline, candidate)]
    freedom = sum(side.size - 1 for side in sides)
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return Spread(
        difference=float(sides[1].mean() - sides[0].mean()),
        variance=squares / freedom if freedom else float("nan"),
        freedom=freedom,
        scale=sum(1 / side.size for side in sides),
    )


def tested(spreads: Sequence[Spread], groups: Sequence[object]) -> list[Tested]:
    """Test many differences.

    Args:
        spreads: of every pair that is decided on together.
        groups: of each pair, within which variances are pooled, such as its phase.

    Returns:
        The tests, in the order of the pairs.
    """
    from scipy.special import stdtr  # type: ignore[import-untyped]

    p_values = np.full(len(spreads), np.nan)
    for group in dict.fromkeys(groups):
        places = [place for place, each in enumerate(groups) if each == group]
        of_group = [spreads[place] for place in places]
        prior, prior_freedom = pooled([each.variance for each in of_group], [each.freedom for each in of_group])
        for place, each in zip(places, of_group, strict=True):
            freedom = each.freedom + prior_freedom
            if freedom == 0:
                continue
            own = each.freedom * each.variance if each.freedom else 0.0
            error = float(np.sqrt((own + prior_freedom * prior) / freedom * each.scale))
            if error == 0:
                p_values[place] = float(each.difference == 0)
            else:
                p_values[place] = 2 * stdtr(freedom, -abs(each.difference) / error)
    return [
        Tested(None, None) if np.isnan(p) else Tested(float(p), float(q))
        for p, q in zip(p_values, adjusted(p_values), strict=True)
    ]


def pooled(variances: Sequence[float], freedoms: Sequence[int]) -> tuple[float, float]:
    """Fit how variances are distributed over cases: a scaled F distribution, by its moments (Smyth, section 6.2).

    Args:
        variances: of the cases.
        freedoms: degrees of freedom of each; 0 where it has none.

    Returns:
        The variance that cases have in common and how many degrees of freedom it is worth: all that the cases have
        together where their variances differ by no more than chance, 0 where there is too little to tell.
    """
    from scipy.special import digamma, polygamma

    known = [(v, f) for v, f in zip(variances, freedoms, strict=True) if f > 0 and v > 0]
    if len(known) < 3:
        return 0.0, 0.0
    half = np.array([f for _, f in known]) / 2
    logs = np.log([v for v, _ in known]) - digamma(half) + np.log(half)
    mean = float(logs.mean())
    excess = float(((logs - mean) ** 2).sum() / (len(known) - 1) - polygamma(1, half).mean())
    most = float(half.sum())
    if excess <= 0:
        return float(np.exp(mean)), 2 * most
    half_prior = _inverse_trigamma(excess)
    return float(np.exp(mean + digamma(half_prior) - np.log(half_prior))), 2 * min(half_prior, most)


def adjusted(p_values: np.ndarray) -> np.ndarray:
    """Give the rate of false discoveries at which each would be called (Benjamini and Hochberg's step-up procedure).

    Args:
        p_values: of one family; those that are NaN were not tested and do not count.

    Returns:
        Adjusted values, none below its p-value; NaN where that is.
    """
    found = np.full(p_values.shape, np.nan)
    places = np.flatnonzero(~np.isnan(p_values))
    order = places[np.argsort(p_values[places])]
    ranks = np.arange(1, order.size + 1)
    steps = p_values[order] * order.size / ranks
    found[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return found


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = value by Newton's iteration on 1/trigamma, which is nearly linear (Smyth, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        step = float(polygamma(1, x) * (1 - polygamma(1, x) / value) / polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return float(x)
