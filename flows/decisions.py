"""Which of many differences are real: a test for each, and the false discovery rate over all of them.

Which of many p-values count is decided by the step-up procedure of Benjamini and Hochberg (Journal of the Royal
Statistical Society B 57, 1995).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from flows.spread import Error, Spread, between, moderated, widened
from kernels.statistics import Estimate, Verdict

FALSE_DISCOVERIES = 0.01
"""Share of false ones among the differences that are called; where nothing differs, the chance that anything is."""

_Group = TypeVar("_Group", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One difference after its test.

    Attributes:
        p_value: chance of so large a difference where there is none; None where no scatter is known.
        q_value: the least rate of false discoveries at which it is called.
        error: of the difference of logarithms.
    """

    p_value: float | None
    q_value: float | None
    error: Error


@dataclass(frozen=True, slots=True)
class Between:
    """The spread between two runs.

    Attributes:
        deviation: standard deviation of a difference of logarithms that rounds do not explain; None where not known.
        controls: unchanged cases that it was read from.
    """

    deviation: float | None
    controls: int


def errors(
    spreads: Sequence[Spread], groups: Sequence[_Group], controls: Sequence[bool] | None
) -> tuple[list[Error], dict[_Group, Between]]:
    """Give the error of each difference.

    Args:
        spreads: of every pair.
        groups: of each pair, within which variances are pooled, such as its phase.
        controls: whether nothing changed in a pair; None where runs are the units, and their spread is in them.

    Returns:
        The errors in the order of the pairs, and the spread between runs by group; none where runs are the units.
    """
    found: dict[int, Error] = {}
    spread_between: dict[_Group, Between] = {}
    for group in dict.fromkeys(groups):
        places = [place for place, each in enumerate(groups) if each == group]
        of_rounds = dict(zip(places, moderated([spreads[place] for place in places]), strict=True))
        if controls is not None:
            chosen = [place for place in places if controls[place]]
            variance = between([spreads[p].difference for p in chosen], [of_rounds[p] for p in chosen])
            spread_between[group] = Between(None if variance is None else float(np.sqrt(variance)), len(chosen))
            of_rounds = {place: widened(error, variance or 0.0, len(chosen)) for place, error in of_rounds.items()}
        found |= of_rounds
    return [found[place] for place in range(len(spreads))], spread_between


def judge(differences: Sequence[float], uncertain: Sequence[Error]) -> list[Judgement]:
    """Test many differences, by Student's t, as one family.

    Args:
        differences: of logarithms.
        uncertain: the error of each.

    Returns:
        The tests, in the order of the differences.
    """
    p_values = np.array([_p_value(d, error) for d, error in zip(differences, uncertain, strict=True)])
    return [
        Judgement(None, None, error) if np.isnan(p) else Judgement(float(p), float(q), error)
        for p, q, error in zip(p_values, adjusted(p_values), uncertain, strict=True)
    ]


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
    steps = p_values[order] * order.size / np.arange(1, order.size + 1)
    found[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return found


def verdict(ratio: Estimate, test: Judgement, smallest: float) -> Verdict:
    """Give the verdict on one difference.

    Args:
        ratio: candidate / baseline.
        test: of the difference, among all that are decided on with it.
        smallest: the least relative difference that matters.

    Returns:
        Slower or faster where the difference is at least ``smallest`` and is called at the rate of false discoveries;
        same where its 95 % interval lies within it, on both sides (two one-sided tests, at 2.5 %); else unclear, as
        where the interval is open.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    if test.q_value is None or ratio.low <= 0:
        return Verdict.UNCLEAR
    matters, difference = float(np.log1p(smallest)), float(np.log(ratio.value))
    if test.q_value <= FALSE_DISCOVERIES and abs(difference) >= matters:
        return Verdict.SLOWER if difference > 0 else Verdict.FASTER
    reach = float(np.sqrt(test.error.variance) * stdtrit(test.error.freedom, 0.975))
    beyond = max(abs(difference) + reach, float(np.log(ratio.high)), -float(np.log(ratio.low)))
    return Verdict.SAME if beyond < matters else Verdict.UNCLEAR


def _p_value(difference: float, error: Error) -> float:
    from scipy.special import stdtr

    if not error.freedom:
        return float("nan")
    if not error.variance:
        return float(difference == 0)
    return float(2 * stdtr(error.freedom, -abs(difference) / np.sqrt(error.variance)))
