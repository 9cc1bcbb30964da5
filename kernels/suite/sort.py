"""sort: a vector in ascending order.

It has no derivative here: the sum of its outputs is that of its inputs, so its gradient is all ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def sort(xp: Any, x: Any) -> Any:
    """Return the values of x (n,) in ascending order."""
    return xp.sort(x)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1), or from all integers of 32 bits."""
    if np.dtype(dtype).kind == "i":
        return (rng.integers(-(2**31), 2**31, n).astype(dtype),)
    return (rng.standard_normal(n).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count log2(n!) comparisons, the least of a sort that compares (Knuth, volume 3, 5.3.1); read and written once."""
    return Work(int(math.lgamma(n + 1) / math.log(2)), 2 * itemsize * n)


def numba() -> Function:
    """Take Numba's np.sort, a quicksort that it compiles from Python."""

    def sort_numba(x: Any) -> Any:
        return np.sort(x)

    return sort_numba


def python() -> Function:
    """Take the built-in sort."""
    return sorted


def torch() -> Function:
    """Take the values of PyTorch's sort, which gives the order beside them."""
    import torch

    def sort_values(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x)[0]

    return sort_values


def tensorflow() -> Function:
    """Take TensorFlow's sort."""
    import tensorflow as tf

    def sort_ascending(x: Any) -> Any:
        return tf.sort(x)

    return sort_ascending


KERNEL = Kernel(
    name="sort",
    summary="x in ascending order",
    # Not smaller: the processor learns the branches of a short sort that repeats, and its time falls by half.
    sizes={"S": {"n": 10_000}, "M": {"n": 100_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64", "int32"),
    inputs=inputs,
    work=work,
    # What is only moved is not rounded.
    tolerance={"float32": Tolerance(0.0, 0.0), "float64": Tolerance(0.0, 0.0), "int32": Tolerance(0.0, 0.0)},
    array=sort,
    implementations={"numba": numba, "python": python, "torch": torch, "tensorflow": tensorflow},
)
