"""Central differences of an objective in float64, first and mixed second ones, each with its rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernels.spec import Kernel, is_floating

Direction = Mapping[int, np.ndarray]
"""Number of a differentiable input to the step that is taken in it; the others stay."""

STEP = (np.finfo(np.float64).eps ** (1 / 3), np.finfo(np.float64).eps ** (1 / 4))
"""The step at which the rounding and the truncation of a first and of a second central difference weigh the same, for
inputs and derivatives of the size of 1 (Press et al., Numerical Recipes, 3rd edition, section 5.7)."""

RUNGS = (1.0, 16.0, 1 / 16)
"""Factors of the step that are tried: a longer one where rounding is what disturbs, a shorter one near a kink."""


class Objective:
    """The sum of all floating outputs of a kernel, near one draw of inputs; what was evaluated is remembered.

    Attributes:
        blocks: the differentiable inputs, in float64.
        scales: of each, the root of its mean square, in which its steps are measured; 1 where it is all zeros.
    """

    def __init__(self, kernel: Kernel, inputs: Sequence[np.ndarray], along: Sequence[np.ndarray] | None) -> None:
        """Widen what is stepped in; nothing is evaluated yet.

        Args:
            kernel: gives the reference.
            inputs: the arrays of the case.
            along: the direction of Hessian-vector products, an array for each differentiable input; None takes first
                differences.
        """
        self._kernel, self._inputs = kernel, tuple(inputs)
        self.blocks = [inputs[position].astype(np.float64) for position in kernel.differentiable]
        self.scales = [float(np.sqrt(np.mean(x * x))) or 1.0 for x in self.blocks]
        self._along = None if along is None else [v.astype(np.float64) for v in along]
        self._known: dict[tuple[str, float], tuple[float, float]] = {}

    def difference(self, name: str, direction: Direction, factor: float) -> tuple[float, float]:
        """Differentiate along a direction; with ``along``, twice: along that and the direction.

        Args:
            name: of the direction, under which the difference is remembered.
            direction: where to.
            factor: of the step.

        Returns:
            The derivative, and what the rounding of the outputs may have done to it.
        """
        if (name, factor) not in self._known:
            self._known[name, factor] = self._difference(direction, factor)
        return self._known[name, factor]

    def _difference(self, direction: Direction, factor: float) -> tuple[float, float]:
        if self._along is None:
            step = STEP[0] * factor
            plus, minus = (self._outputs(direction, sign * step) for sign in (1, -1))
            gaps, divisor = [a - b for a, b in zip(plus, minus, strict=True)], 2 * step
            sizes = [np.abs(a)[a != b].sum() for a, b in zip(plus, minus, strict=True)]
        else:
            step = STEP[1] * factor
            other = step * min(self.scales)
            corners = [self._outputs(direction, i * step, j * other) for i in (1, -1) for j in (1, -1)]
            gaps = [(a - b) - (c - d) for a, b, c, d in zip(*corners, strict=True)]
            divisor = 4 * step * other
            sizes = [np.abs(a)[(a != b) | (a != c)].sum() for a, b, c, _ in zip(*corners, strict=True)]
        rounding = 4 * float(np.finfo(np.float64).eps) * float(sum(sizes)) / divisor
        return float(sum(gap.sum() for gap in gaps)) / divisor, rounding

    def _outputs(self, direction: Direction, step: float, other: float = 0.0) -> list[np.ndarray]:
        """Evaluate the floating outputs at a step along the direction, and at another along the Hessian's."""
        moved = list(self._inputs)
        for at, position in enumerate(self._kernel.differentiable):
            block = self.blocks[at]
            if at in direction:
                block = block + step * direction[at]
            if self._along is not None:
                block = block + other * self._along[at]
            moved[position] = block
        with np.errstate(all="ignore"):
            return [leaf for leaf in self._kernel.expected(tuple(moved)) if is_floating(leaf.dtype)]
