"""What a derived case is, and the check of its output against finite differences of the float64 reference.

The objective is the sum of all elements of all floating outputs. Order 1 gives the objective and its gradient, an array
for each differentiable input; order 2 gives the product of its Hessian with a direction, in which the inputs end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from kernels.checking import Answer, misshapen
from kernels.differences import RUNGS, Direction, Objective
from kernels.frameworks.framework import Framework
from kernels.spec import Kernel, Tolerance, dtype_named, is_floating, leaves

SIGMAS = 5.0
"""By Hoeffding's inequality, errors summed with random signs exceed this many times their norm in 8 of 10^6 draws."""

MOST_RELATIVE = 0.1
"""A relative tolerance above this lets half a gradient pass: nothing is compared with it."""

TELLING = 0.05
"""A finite difference whose own uncertainty is a larger share of what it is compared with tells nothing."""

CHECK_NS = 200_000_000
"""Comparisons beyond those that are always made are begun within this time of the check: its cost is bounded."""

COORDINATES = 2
"""Of the single components that are compared for each differentiable input: its largest, and as many at random."""


class Probe(NamedTuple):
    """A comparison.

    Attributes:
        name: of its direction, in words.
        direction: where the objective is stepped to.
        spread: the size of what it measures, at the tolerance's scale.
        always: whether it is made however long the check has taken.
        key: what tells directions of one name apart.
    """

    name: str
    direction: Direction
    spread: float
    always: bool = False
    key: int = 0


def derived(kernel: Kernel, order: int) -> Kernel:
    """Give the kernel whose inputs are those of a derived case.

    Args:
        kernel: the kernel.
        order: 0 the value, 1 the gradient, 2 a Hessian-vector product.

    Returns:
        The kernel itself for order 0. Else it consumes none of its inputs, for a derivative needs them again. For order
        2 a direction from N(0, 1) for each differentiable input is drawn after its inputs and appended to them; its
        reference stays that of the value and leaves those out.
    """
    if order == 0:
        return kernel
    kernel = replace(kernel, donates=())
    if order == 1:
        return kernel
    count = len(kernel.differentiable)

    def inputs(rng: np.random.Generator, dtype: Any, **dims: int) -> tuple[np.ndarray, ...]:
        drawn = kernel.inputs(rng, dtype, **dims)
        along = (drawn[position] for position in kernel.differentiable)
        return (*drawn, *(np.asarray(rng.standard_normal(x.shape)).astype(x.dtype) for x in along))

    def reference(*wide: np.ndarray) -> Any:
        value = wide[:-count]
        return kernel.reference(*value) if kernel.reference else kernel.array(np, *value)  # type: ignore[misc]

    return replace(kernel, inputs=inputs, reference=reference)


class DerivedAnswer(Answer):
    """What is known of a derived case's answer for one draw of inputs."""

    def __init__(
        self, kernel: Kernel, inputs: Sequence[np.ndarray], dtype: str, tolerance: Tolerance, order: int
    ) -> None:
        """Evaluate the value's reference; finite differences are taken when an output is there.

        Args:
            kernel: as ``derived`` gave it.
            inputs: the arrays of the case.
            dtype: the case's dtype.
            tolerance: of the value, on the case's backend and at its size.
            order: 1 or 2.
        """
        super().__init__(kernel, tuple(inputs), dtype, tolerance)
        self._order, self._positions = order, kernel.differentiable
        along = inputs[len(inputs) - len(self._positions) :] if order == 2 else None
        self._objective = Objective(kernel, inputs, along)
        # Half of the digits, where the kernel's own tolerance asks for more: the other half may go by conditioning.
        self._relative = max(self._tolerance.relative, _epsilon(dtype) ** 0.5)

    def disagreement(self, framework: Framework, output: object) -> str | None:
        """Find the first way in which an output is not the derivative.

        Compared are <g, u> for directions u of random signs, over all inputs together and each alone, for each alone
        with u the signs of g itself, and single components. With r the larger of the kernel's relative tolerance and
        the square root of the dtype's epsilon, a gradient that is off by r in its norm passes: |<g, u> - difference| <=
        5 r |g| (Hoeffding's inequality, u being independent of the errors), and |g_i - difference| <= r (|g_i| +
        rms(g)); each with the uncertainty of the difference added. Along its own signs, where <g, u> is the sum of all
        sizes and never small by chance, r |g| is added to r times that sum: a gradient of one input that is negated,
        zeroed or half as large again is told in every dtype. What stays unseen: of more than 1 / (5 r)^2 components of
        one size, one that is wrong by no more than its own size, and is not among those that were looked at.

        Args:
            framework: reads the leaves.
            output: what the kernel returned.

        Returns:
            The disagreement in words, or None.
        """
        found, gradients = leaves(output), self._objective.blocks
        scalar = [np.zeros(())] if self._order == 1 else []
        problem = misshapen(framework, found, [*scalar, *gradients], self._dtype)
        if problem:
            return problem
        if self._relative > MOST_RELATIVE:
            return f"nothing to compare: a relative tolerance of {self._relative:g} lets half a derivative pass"
        values = [framework.host(leaf).astype(np.float64) for leaf in found]
        if not all(np.isfinite(value).all() for value in values):
            return "a derivative holds values that are not finite"
        return (self._objective_off(values.pop(0)) if self._order == 1 else None) or self._off(values)

    def _objective_off(self, value: np.ndarray) -> str | None:
        floating = [leaf for leaf in self.values if is_floating(leaf.dtype)]
        expected = float(sum(leaf.sum() for leaf in floating))
        allowed = sum(
            self._relative * float(np.abs(leaf).sum()) + self._tolerance.absolute * leaf.size for leaf in floating
        )
        if abs(float(value) - expected) <= allowed:
            return None
        return f"the objective is {float(value):.9g} for {expected:.9g}; allowed {allowed:g}"

    def _off(self, gradients: list[np.ndarray]) -> str | None:
        """Compare in turn what is always compared, then as much as the time allows."""
        if not any(gradient.any() for gradient in gradients):
            return (
                "nothing to compare: the derivative is zero everywhere; declare linear=True where a second one is, "
                "or leave out of differentiable what the sum of the outputs does not depend on"
            )
        told, begun = 0, perf_counter_ns()
        for probe in self._probes(gradients):
            if not probe.always and perf_counter_ns() - begun > CHECK_NS:
                break
            got = sum(float((gradients[at] * step).sum()) for at, step in probe.direction.items())
            verdict = self._compare(got, probe)
            if isinstance(verdict, str):
                return f"{self._what} {probe.name} is {verdict}"
            told += verdict
        if told:
            return None
        return f"nothing to compare: no finite difference of the reference tells {self._what}; has it jumps or kinks?"

    @property
    def _what(self) -> str:
        return "the gradient" if self._order == 1 else "the Hessian-vector product"

    def _compare(self, got: float, probe: Probe) -> str | bool:
        """Give the disagreement, or whether the comparison told anything."""
        wrong, spread, name = "", probe.spread, f"{probe.name} {probe.key}"
        for rung in RUNGS:
            near, uncertainty = self._objective.difference(name, probe.direction, rung)
            size, allowed = max(spread, abs(near), abs(got)), self._relative * (spread + abs(near))
            # What more than rounding disturbs does not agree by chance: where it agrees, one step is enough.
            if not abs(got - near) <= allowed + uncertainty:
                uncertainty += abs(near - self._objective.difference(name, probe.direction, 2 * rung)[0])
            # NaN, where a step leaves the domain, tells nothing either.
            if not uncertainty <= TELLING * size:
                continue
            if abs(got - near) <= allowed + uncertainty:
                return True
            wrong = wrong or f"{got:.9g} for {near:.9g} by differences; allowed {allowed + uncertainty:.3g}"
            if uncertainty <= allowed:
                break
        return wrong or False

    def _probes(self, gradients: list[np.ndarray]) -> Iterator[Probe]:
        """Give what to compare: first what is always, one comparison of each input's own among it."""
        rng = np.random.default_rng(gradients[0].size)
        scales, blocks = self._objective.scales, range(len(gradients))
        signs = [scales[at] * (1.0 - 2.0 * rng.integers(0, 2, x.shape, np.int8)) for at, x in enumerate(gradients)]
        norms = [scales[at] * float(np.linalg.norm(gradients[at].ravel())) for at in blocks]

        def component(at: int, flat: int, always: bool = False) -> Probe:
            step = np.zeros(gradients[at].shape)
            step.flat[flat] = scales[at]
            name = f"by input {self._positions[at]} at {tuple(int(i) for i in np.unravel_index(flat, step.shape))}"
            return Probe(name, {at: step}, norms[at] / max(step.size, 1) ** 0.5, always)

        largest = [_largest(gradient) for gradient in gradients]
        yield Probe("along random signs", dict(enumerate(signs)), SIGMAS * float(np.linalg.norm(norms)), always=True)
        at = max(blocks, key=lambda at: scales[at] * float(np.abs(gradients[at].flat[largest[at][0]])))
        yield component(at, largest[at][0], always=True)
        for at in blocks:
            own = np.sign(gradients[at])
            key = zlib.crc32(own.astype(np.int8, order="C"))
            # Where the gradient is zero, all of it perhaps, random steps ask whether it should be. Signs alone would
            # not: of an even number of equal components their sum may be zero.
            lengths = np.random.default_rng(at).uniform(0.5, 1.5, own.shape)
            own = np.where(own == 0, lengths * signs[at], scales[at] * own)
            yield Probe(f"by input {self._positions[at]} along its own signs", {at: own}, norms[at], True, key)
        for at in blocks:
            yield Probe(f"by input {self._positions[at]} along random signs", {at: signs[at]}, SIGMAS * norms[at])
            for flat in largest[at]:
                yield component(at, flat)
            for flat in rng.integers(gradients[at].size, size=COORDINATES):
                yield component(at, int(flat))


def answer(kernel: Kernel, inputs: tuple[np.ndarray, ...], dtype: str, tolerance: Tolerance, order: int) -> Answer:
    """Give what outputs for some inputs are held against.

    Args:
        kernel: as ``derived`` gave it.
        inputs: the arrays of the case.
        dtype: the case's dtype.
        tolerance: of the value, on the case's backend and at its size.
        order: 0 the value, 1 the gradient, 2 a Hessian-vector product.

    Returns:
        The reference's outputs for order 0, else what checks a derivative.
    """
    if order:
        return DerivedAnswer(kernel, inputs, dtype, tolerance, order)
    return Answer(kernel, inputs, dtype, tolerance)


def _largest(gradient: np.ndarray) -> list[int]:
    """Find the largest components, the largest first; sorting them all would take longer than differences do."""
    sizes = np.abs(gradient.ravel())
    count = min(COORDINATES, sizes.size)
    found = np.argpartition(sizes, sizes.size - count)[-count:]
    return [int(at) for at in found[np.argsort(-sizes[found])]]


def _epsilon(dtype: str) -> float:
    """Find the distance from 1 to the next number, of dtypes that NumPy lacks as well."""
    one, epsilon = dtype_named(dtype).type(1), 1.0
    while dtype_named(dtype).type(1 + epsilon / 2) > one:
        epsilon /= 2
    return epsilon
