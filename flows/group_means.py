"""Geometric means of ratios over groups of cases, with the interval of the cases' own draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.comparison import Compared, Mean
from flows.ratios import DRAWS, estimate
from kernels.phase import Phase
from kernels.statistics import Estimate


class Means:
    """Sums of logarithms by group, and of their draws, so that no case's draws are kept."""

    def __init__(self) -> None:
        """Begin without any case."""
        self._sums: dict[tuple[Phase, str], list[Any]] = {}

    def add(self, case: Compared, draws: np.ndarray | None) -> None:
        """Take a case into its groups: all, its framework and mode, its kernel.

        Args:
            case: with its ratio.
            draws: of the ratio's logarithm; None where no scatter is known, and so none of its groups'.
        """
        for group in ("all", f"framework {case.framework}", f"kernel {case.kernel}"):
            held = self._sums.setdefault((case.phase, group), [0, 0.0, np.zeros(DRAWS)])
            held[0] += 1
            held[1] += float(np.log(case.ratio.value))
            held[2] = held[2] + (np.nan if draws is None else draws)

    def found(self) -> tuple[Mean, ...]:
        """Give the means, by phase and group."""
        order = list(Phase)
        return tuple(
            Mean(phase, group, cases, _mean(total / cases, draws / cases))
            for (phase, group), (cases, total, draws) in sorted(
                self._sums.items(), key=lambda each: (order.index(each[0][0]), each[0][1] != "all", each[0][1])
            )
        )


def _mean(value: float, draws: np.ndarray) -> Estimate:
    return Estimate(float(np.exp(value)), 0.0, float("inf")) if np.isnan(draws).any() else estimate(value, draws)
