"""Compare outputs with the float64 reference: count, shape, dtype and values of every leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.frameworks.framework import Framework
from kernels.spec import Kernel, Tolerance, dtype_named, is_floating, leaves

_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_REAL = {complex_: real for real, complex_ in _COMPLEX.items()}
"""The dtypes of one precision: a transform of real numbers has complex ones for its answer, and the other way round."""


class Answer:
    """What is known of a case's answer for one draw of inputs.

    Attributes:
        values: every output leaf of the reference, floating ones in float64.
    """

    def __init__(self, kernel: Kernel, inputs: tuple[np.ndarray, ...], dtype: str, tolerance: Tolerance) -> None:
        """Evaluate the reference.

        Args:
            kernel: the kernel.
            inputs: the arrays of the case.
            dtype: the case's dtype.
            tolerance: how far outputs of the case may lie from it.
        """
        self.values = kernel.expected(inputs)
        self._dtype, self._tolerance = dtype, tolerance

    def disagreement(self, framework: Framework, output: object) -> str | None:
        """Find the first way in which an output is not the answer.

        Args:
            framework: reads the leaves.
            output: what the kernel returned.

        Returns:
            The disagreement in words, or None.
        """
        return disagreement(framework, output, self.values, self._dtype, self._tolerance)


def disagreement(
    framework: Framework, output: object, expected: Sequence[np.ndarray], dtype: str, tolerance: Tolerance
) -> str | None:
    """Find the first way in which an output is not what the reference says.

    A check that compared nothing is a disagreement too.

    Args:
        framework: reads the leaves.
        output: what the kernel returned.
        expected: the reference's leaves, floating ones in float64.
        dtype: the case's dtype, whose precision real and complex leaves must have; a case in integers has them in it.
        tolerance: how far values may lie apart.

    Returns:
        The disagreement in words, or None.
    """
    found = leaves(output)
    if not found or not expected or any(reference.size == 0 for reference in expected):
        return f"nothing to compare: {len(found)} outputs, {len(expected)} in the reference, or an empty one"
    if all(_vacuous(reference, tolerance) for reference in expected):
        return "nothing to compare: an output of zeros or of NaN would pass; tighten the tolerance or change the inputs"
    problem = misshapen(framework, found, expected, dtype)
    if problem:
        return problem
    for position, (leaf, reference) in enumerate(zip(found, expected, strict=True)):
        wrong = _far(framework.host(leaf), reference, tolerance)
        if wrong is not None:
            return f"output {position} {wrong}"
    return None


def misshapen(framework: Framework, found: Sequence[Any], expected: Sequence[np.ndarray], dtype: str) -> str | None:
    """Compare count, shapes and dtypes, whatever the values.

    Args:
        framework: reads the leaves.
        found: the output's leaves.
        expected: arrays of the shapes that they must have, floating ones in float64.
        dtype: the case's dtype, whose precision real and complex leaves must have; a case in integers has them in it.

    Returns:
        The first disagreement in words, or None.
    """
    if len(found) != len(expected):
        return f"{len(found)} outputs, the reference has {len(expected)}"
    for position, (leaf, reference) in enumerate(zip(found, expected, strict=True)):
        where, shape = f"output {position}", framework.host(leaf).shape
        if shape != reference.shape:
            return f"{where} has shape {shape}, the reference {reference.shape}"
        actual = framework.dtype_of(leaf)
        if _inexact(reference):
            of_kind = _COMPLEX if reference.dtype.kind == "c" else _REAL
            if actual != of_kind.get(dtype, dtype):
                return f"{where} is {actual}, the case says {dtype}"
        elif np.dtype(actual).kind != reference.dtype.kind:
            return f"{where} is {actual}, the reference {reference.dtype}"
        elif reference.dtype.kind == dtype_named(dtype).kind and actual != dtype:
            # A case in integers; what counts or points in a floating one may be as wide as its framework has it.
            return f"{where} is {actual}, the case says {dtype}"
    return None


def _inexact(reference: np.ndarray) -> bool:
    return is_floating(reference.dtype) or reference.dtype.kind == "c"


def _vacuous(reference: np.ndarray, tolerance: Tolerance) -> bool:
    """Tell whether a floating reference lets pass what a kernel that did nothing might return."""
    if not _inexact(reference):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        told = np.isfinite(reference) & (
            np.abs(reference) > tolerance.absolute + tolerance.relative * np.abs(reference)
        )
    return not told.any()


def _far(values: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> str | None:
    if not _inexact(reference):
        different = int(np.count_nonzero(values != reference))
        return f"differs in {different} of {reference.size} values" if different else None
    wide = values.astype(np.complex128 if reference.dtype.kind == "c" else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(wide - reference)
        allowed = tolerance.absolute + tolerance.relative * np.abs(reference)
        same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
        # Against an infinity every finite error would be allowed: there, only the same will do.
        bad = ~same & ~((error <= allowed) & np.isfinite(reference))
        count = int(np.count_nonzero(bad))
        if not count:
            return None
        excess = np.where(bad, np.nan_to_num(error - allowed, nan=np.inf, posinf=np.inf), -np.inf)
    at = np.unravel_index(int(np.argmax(excess)), reference.shape)
    return (
        f"is off in {count} of {reference.size} values, worst {wide[at]:.9g} for {reference[at]:.9g}; "
        f"allowed {tolerance.absolute:g} + {tolerance.relative:g} relative"
    )
