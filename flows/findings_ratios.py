"""How many times as long: ratios of timings on the page of findings, with their intervals and their means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows import ratios
from flows.findings_data import Timing
from kernels.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one timing takes as another.

    Attributes:
        estimate: with its 95 % interval, as ``jitmatrix compare`` gives it; an open one where a side is one process.
        draws: of its logarithm; None where the interval is open.
    """

    estimate: Estimate
    draws: np.ndarray | None

    @property
    def longer(self) -> bool | None:
        """True where it takes longer, False where less; None where the interval holds 1: it is unclear then."""
        if self.estimate.low > 1:
            return True
        return False if self.estimate.high < 1 else None


def ratio(timing: Timing, baseline: Timing) -> Ratio:
    """Estimate how many times as long a timing takes.

    Args:
        timing: the timing.
        baseline: what it is compared with.

    Returns:
        timing / baseline: above 1 takes longer.
    """
    return Ratio(*ratios.interval([baseline.rounds], [timing.rounds]))


def geometric_mean(found: Sequence[Ratio]) -> Ratio:
    """Take the mean of ratios.

    Args:
        found: at least one.

    Returns:
        Their geometric mean, whose interval is that of these cases: they are no sample of others.
    """
    value = float(np.mean([math.log(each.estimate.value) for each in found]))
    known = [each.draws for each in found if each.draws is not None]
    if len(known) < len(found):
        return Ratio(Estimate(math.exp(value), 0.0, math.inf), None)
    draws = np.mean(known, axis=0)
    return Ratio(ratios.estimate(value, draws), draws)
