"""triad: ``b + s * c``, the triad of the STREAM benchmark (McCalpin, 1995), axpy to linear algebra.

It has no derivative here: the sum of its outputs is linear in b and c, so there is no second one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def triad(xp: Any, b: Any, s: Any, c: Any) -> Any:
    """Return ``b + s * c``: b and c (n,), s a scalar."""
    return b + s * c


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw b and c from N(0, 1), and s from [2, 4): STREAM's own is 3."""
    drawn = rng.standard_normal(n), np.asarray(rng.uniform(2, 4)), rng.standard_normal(n)
    return tuple(a.astype(dtype) for a in drawn)


def work(itemsize: int, n: int) -> Work:
    """Count as STREAM does: a product and a sum per element, two arrays read and one written."""
    return Work(2 * n, itemsize * (3 * n + 1))


def numba() -> Function:
    """Write the one loop."""

    def triad_loop(b: Any, s: Any, c: Any) -> Any:
        a = np.empty_like(b)
        for i in range(b.size):
            a[i] = b[i] + s * c[i]
        return a

    return triad_loop


def python() -> Function:
    """Write the list comprehension."""

    def triad_list(b: Any, s: Any, c: Any) -> Any:
        return [x + s * y for x, y in zip(b, c, strict=True)]

    return triad_list


def tensorflow() -> Function:
    """Write it with operators, which are TensorFlow's own."""
    return lambda b, s, c: b + s * c


KERNEL = Kernel(
    name="triad",
    summary="b + s * c",
    sizes={"S": {"n": 1_000}, "M": {"n": 100_000}, "L": {"n": 4_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Two roundings, or one with a fused multiply-add, of terms up to 20 that may cancel.
    tolerance={"float32": Tolerance(1e-6, 2e-6), "float64": Tolerance(1e-15, 4e-15)},
    array=triad,
    implementations={"numba": numba, "python": python, "tensorflow": tensorflow},
)
