"""How far timings of the same thing lie apart: between rounds, between runs, and pooled over the cases of a comparison.

The rounds, and where a side has several runs the runs, are the independent units; each gives the logarithm of its
median. With five of them a case's own variance is hardly known. The cases of a comparison together say how variances
are distributed, and that is worth further degrees of freedom: as many as the cases resemble each other (the moderated
t-test of Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).

One run on each side tells nothing of the spread between runs, which rounds within a run do not have: another hour,
other neighbours. It is read from the controls, the cases in which nothing changed that is recorded: they differ by
chance alone, and by how much more than their rounds explain is the spread between the two runs (a robust form of the
moment estimator of Paule and Mandel, Journal of Research of the National Bureau of Standards 87, 1982; negative
controls as in Schuemie and others, Statistics in Medicine 33, 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Units = Sequence[np.ndarray]
"""Logarithms of round medians: an array for each run."""

CONTROLS = 10
"""Unchanged cases from which on they tell the spread between runs."""

FAR = 3.0
"""Errors from which on a control is taken to have changed unseen."""

CUT = 2.0
"""Errors beyond which it does not matter how far a control lies."""

_LEAST_CASES = 3
_EVENLY = (np.arange(1000) + 0.5) / 1000


@dataclass(frozen=True, slots=True)
class Spread:
    """What a pair of timings says of its own scatter.

    Attributes:
        difference: candidate's mean less baseline's, of logarithms.
        variance: of one unit, as this pair shows it; 0 where it shows nothing.
        freedom: degrees of freedom of that variance.
        scale: what to multiply the variance with for that of the difference.
    """

    difference: float
    variance: float
    freedom: int
    scale: float


@dataclass(frozen=True, slots=True)
class Error:
    """How uncertain a difference is.

    Attributes:
        variance: of the difference.
        freedom: degrees of freedom of that variance; 0 where nothing is known.
    """

    variance: float
    freedom: float


def spread(baseline: Units, candidate: Units, by_run: bool) -> Spread:
    """Read the scatter of a pair.

    Args:
        baseline: its rounds, by run.
        candidate: its rounds, by run.
        by_run: whether runs are the units; rounds are, where the comparison has one run on each side.

    Returns:
        The spread.
    """
    sides = [
        np.array([rounds.mean() for rounds in side]) if by_run else np.concatenate(list(side))
        for side in (baseline, candidate)
    ]
    freedom = sum(side.size - 1 for side in sides)
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return Spread(
        difference=float(sides[1].mean() - sides[0].mean()),
        variance=squares / freedom if freedom else 0.0,
        freedom=freedom,
        scale=sum(1 / side.size for side in sides),
    )


def moderated(spreads: Sequence[Spread]) -> list[Error]:
    """Give the error of each difference, its own variance drawn towards what the cases have in common.

    Args:
        spreads: of cases that are alike, such as those of one phase.

    Returns:
        An error for each.
    """
    prior, prior_freedom = pooled([each.variance for each in spreads], [each.freedom for each in spreads])
    found = []
    for each in spreads:
        freedom = each.freedom + prior_freedom
        squares = each.freedom * each.variance + prior_freedom * prior
        found.append(Error(squares / freedom * each.scale if freedom else 0.0, freedom))
    return found


def pooled(variances: Sequence[float], freedoms: Sequence[int]) -> tuple[float, float]:
    """Fit how variances are distributed over cases: a scaled F distribution, by its moments (Smyth, section 6.2).

    Args:
        variances: of the cases.
        freedoms: degrees of freedom of each; 0 where it has none.

    Returns:
        The variance that cases have in common and how many degrees of freedom it is worth: all that the cases have
        together where their variances differ by no more than chance, 0 where there is too little to tell.
    """
    from scipy.special import digamma, polygamma  # type: ignore[import-untyped]

    known = [(v, f) for v, f in zip(variances, freedoms, strict=True) if f > 0 and v > 0]
    if len(known) < _LEAST_CASES:
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


def between(differences: Sequence[float], errors: Sequence[Error]) -> float | None:
    """Read the spread between two runs from cases in which nothing changed.

    Args:
        differences: of the controls.
        errors: of these, by their rounds.

    Returns:
        The variance that the rounds do not explain; None where there are too few controls to tell. A first estimate
        puts half of the controls within the quartiles of Student's t, whatever the others do. Controls that lie far
        out by it have changed unseen, and are left out; the squares of the others, in units of their errors and cut
        off at CUT, get the mean that they have by chance.
    """
    from scipy.special import stdtrit

    known = [(d, each) for d, each in zip(differences, errors, strict=True) if each.freedom > 0 and each.variance > 0]
    if len(known) < CONTROLS:
        return None
    squares = np.array([d for d, _ in known]) ** 2
    own = np.array([each.variance for _, each in known])
    by_chance = stdtrit(float(np.median([each.freedom for _, each in known])), _EVENLY) ** 2
    first = _solved(squares, own, np.median, float(np.median(by_chance)))
    near = squares <= FAR**2 * (own + first)
    return _solved(squares[near], own[near], _cut_mean, _cut_mean(by_chance))


def _cut_mean(squares: np.ndarray) -> float:
    return float(np.minimum(squares, CUT**2).mean())


def _solved(squares: np.ndarray, own: np.ndarray, middle: Callable[[np.ndarray], Any], by_chance: float) -> float:
    """Find the variance with which squares of differences have the middle that they have by chance."""

    def excess(variance: float) -> float:
        return float(middle(squares / (own + variance))) - by_chance

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(squares.sum()) / by_chance
    while high - low > 1e-6 * high:
        half = (low + high) / 2
        low, high = (half, high) if excess(half) > 0 else (low, half)
    return high


def widened(error: Error, variance: float, controls: int) -> Error:
    """Add the spread between runs to the error of a difference.

    Args:
        error: by its rounds.
        variance: between the runs.
        controls: cases that it was read from.

    Returns:
        The error of both. Its degrees of freedom are such that, by simulation, comparisons of 60 unchanged cases alarm
        as seldom where runs differ as where they do not: the variance between is worth one for five controls.
    """
    if not variance or not error.freedom:
        return error
    both = error.variance + variance
    share = variance / both
    return Error(both, 1 / ((1 - share) ** 2 / error.freedom + share / (controls / 5)))


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
