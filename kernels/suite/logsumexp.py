"""logsumexp: ``max(x) + log(sum(exp(x - max(x))))`` of each row, whose gradient is the softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def logsumexp(xp: Any, x: Any) -> Any:
    """Return the logarithm of the sum of exponentials of each row of x (n, m)."""
    largest = xp.amax(x, axis=1, keepdims=True)
    return largest[:, 0] + xp.log(xp.sum(xp.exp(x - largest), axis=1))


def inputs(rng: np.random.Generator, dtype: Any, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 4): some terms weigh much, and none is all."""
    return ((2 * rng.standard_normal((n, m))).astype(dtype),)


def work(itemsize: int, n: int, m: int) -> Work:
    """Count maximum, difference, exponential and sum once per element, a logarithm and a sum per row."""
    return Work(4 * n * m + 2 * n, itemsize * (n * m + n))


def numba() -> Function:
    """Write the loops over one row at a time."""

    def logsumexp_loops(x: Any) -> Any:
        y = np.empty(x.shape[0], x.dtype)
        for i in range(x.shape[0]):
            largest = x[i, 0]
            for j in range(1, x.shape[1]):
                largest = max(largest, x[i, j])
            total = x.dtype.type(0)
            for j in range(x.shape[1]):
                total += math.exp(x[i, j] - largest)
            y[i] = largest + math.log(total)
        return y

    return logsumexp_loops


def torch() -> Function:
    """Take PyTorch's one operation."""
    import torch

    def logsumexp_rows(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, dim=1)

    return logsumexp_rows


def tensorflow() -> Function:
    """Take TensorFlow's one operation."""
    import tensorflow as tf

    return lambda x: tf.reduce_logsumexp(x, axis=1)


KERNEL = Kernel(
    name="logsumexp",
    summary="max(x) + log(sum(exp(x - max(x)))) of each row",
    sizes={"S": {"n": 32, "m": 128}, "M": {"n": 256, "m": 1024}, "L": {"n": 2048, "m": 4096}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # The logarithm makes of the sum's relative error, at most m·eps and in practice its root, an absolute one.
    tolerance={"float32": Tolerance(1e-5, 1e-5), "float64": Tolerance(1e-13, 1e-13)},
    array=logsumexp,
    implementations={"numba": numba, "torch": torch, "tensorflow": tensorflow},
    differentiable=(0,),
)
