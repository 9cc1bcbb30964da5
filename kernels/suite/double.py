"""double: twice one number, where nothing but the cost of a call is left."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def double(xp: Any, x: Any) -> Any:
    """Return ``x * 2``, x a scalar."""
    return x * 2


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw one number from [1, 2), as an array without dimensions."""
    return (np.asarray(rng.uniform(1, 2)).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count one multiplication, one number in and one out."""
    return Work(n, 2 * itemsize * n)


def numba() -> Function:
    """Write it as a sum: Numba types float32 times an integer as float64."""

    def double_sum(x: Any) -> Any:
        return x + x

    return double_sum


def python() -> Function:
    """Write it for one Python number."""

    def double_scalar(x: Any) -> Any:
        return x * 2

    return double_scalar


def tensorflow() -> Function:
    """Write it for a tensor."""

    def double_tf(x: Any) -> Any:
        return x * 2

    return double_tf


KERNEL = Kernel(
    name="double",
    summary="x * 2 of one number",
    sizes={"S": {"n": 1}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A doubling is exact in binary floating point.
    tolerance={"float32": Tolerance(0.0, 0.0), "float64": Tolerance(0.0, 0.0)},
    array=double,
    implementations={"numba": numba, "python": python, "tensorflow": tensorflow},
)
