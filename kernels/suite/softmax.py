"""softmax: ``exp(x - max(x)) / sum(exp(x - max(x)))`` of each row.

It has no derivative here: the sum of its outputs is the number of rows whatever the inputs, and its gradient zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def softmax(xp: Any, x: Any) -> Any:
    """Return the softmax of each row of x (n, m)."""
    e = xp.exp(x - xp.amax(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def inputs(rng: np.random.Generator, dtype: Any, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 4): some classes are likely, and none takes all."""
    return ((2 * rng.standard_normal((n, m))).astype(dtype),)


def work(itemsize: int, n: int, m: int) -> Work:
    """Count maximum, difference, exponential, sum and quotient once per element, read and written once."""
    return Work(5 * n * m, 2 * itemsize * n * m)


def numba() -> Function:
    """Write the loops over one row at a time."""

    def softmax_loops(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            largest = x[i, 0]
            for j in range(1, x.shape[1]):
                largest = max(largest, x[i, j])
            total = x.dtype.type(0)
            for j in range(x.shape[1]):
                y[i, j] = math.exp(x[i, j] - largest)
                total += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= total
        return y

    return softmax_loops


def torch() -> Function:
    """Take PyTorch's one operation."""
    import torch

    def softmax_rows(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)

    return softmax_rows


def tensorflow() -> Function:
    """Take TensorFlow's one operation."""
    import tensorflow as tf

    return lambda x: tf.nn.softmax(x, axis=1)


KERNEL = Kernel(
    name="softmax",
    summary="exp(x - max(x)) / sum(exp(x - max(x))) of each row",
    sizes={"S": {"n": 32, "m": 128}, "M": {"n": 256, "m": 1024}, "L": {"n": 2048, "m": 4096}},
    dtypes=("float32", "float64", "bfloat16"),
    inputs=inputs,
    work=work,
    # A difference of order 10 is rounded before its exponential is taken: in bfloat16 one of 8 to 16 by 1/32 at most,
    # 3 % of the value, and eps for each step after. The absolute part forgives the small values of larger ones.
    tolerance={
        "float32": Tolerance(1e-5, 1e-9),
        "float64": Tolerance(1e-13, 1e-18),
        "bfloat16": Tolerance(5e-2, 1e-6),
    },
    array=softmax,
    implementations={"numba": numba, "torch": torch, "tensorflow": tensorflow},
)
