"""Geometric means of ratios over groups of cases, with the interval of the cases' own draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flows.comparison import Mean
from flows.ratios import DRAWS, estimate
from kernels.phase import Phase
from kernels.statistics import Estimate


class Means:
    """Sums of logarithms by group, and of their draws, so that no case's draws are kept."""

    def __init__(self) -> None:
        """Begin without any case."""
        self._sums: dict[tuple[Phase, str], list[Any]] = {}

    def add(self, phase: Phase, row: Mapping[str, Any], difference: float, draws: np.ndarray | None) -> None:
        """Take a case into its groups: all, its framework and mode, its kernel.

        Args:
            phase: what was timed.
            row: of the case.
            difference: logarithm of its ratio.
            draws: of that logarithm; None where no scatter is known, which leaves its groups without an interval.
        """
        for group in ("all", f"framework {row['framework']}/{row['mode']}", f"kernel {row['kernel']}"):
            held = self._sums.setdefault((phase, group), [0, 0.0, np.zeros(DRAWS)])
            held[0] += 1
            held[1] += difference
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
