"""layer_norm: ``(x - mean) / sqrt(variance + 1e-5) * gamma + beta`` of each row (Ba, Kiros and Hinton, 2016)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

EPSILON = 1e-5
"""Added to the variance; the value that PyTorch and TensorFlow's users take."""


def layer_norm(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalise each row of x (n, d), then scale and shift by gamma and beta (d,)."""
    centred = x - xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    return centred / xp.sqrt(variance + EPSILON) * gamma + beta


def inputs(rng: np.random.Generator, dtype: Any, n: int, d: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(1, 1), gamma from [0.5, 1.5) and beta from N(0, 1)."""
    x, gamma = rng.standard_normal((n, d)) + 1, rng.uniform(0.5, 1.5, d)
    return tuple(a.astype(dtype) for a in (x, gamma, rng.standard_normal(d)))


def work(itemsize: int, n: int, d: int) -> Work:
    """Count per element three operations for mean and variance and four for the rest, two roots' worth per row."""
    return Work(7 * n * d + 2 * n, itemsize * (2 * n * d + 2 * d))


def numba() -> Function:
    """Write the loops over one row at a time."""

    def layer_norm_loops(x: Any, gamma: Any, beta: Any) -> Any:
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            mean, square = x.dtype.type(0), x.dtype.type(0)
            for j in range(x.shape[1]):
                mean += x[i, j]
            mean = x.dtype.type(mean / x.shape[1])
            for j in range(x.shape[1]):
                square += (x[i, j] - mean) * (x[i, j] - mean)
            scale = x.dtype.type(1 / math.sqrt(square / x.shape[1] + EPSILON))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]
        return y

    return layer_norm_loops


def torch() -> Function:
    """Take PyTorch's one operation, whose own epsilon is 1e-5."""
    import torch

    def layer_norm_rows(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(x, gamma.shape, gamma, beta)

    return layer_norm_rows


def tensorflow() -> Function:
    """Take TensorFlow's normalisation by moments; those of tf.nn.moments have a wrong second derivative."""
    import tensorflow as tf

    def layer_norm_rows(x: Any, gamma: Any, beta: Any) -> Any:
        mean = tf.reduce_mean(x, axis=1, keepdims=True)
        variance = tf.math.reduce_variance(x, axis=1, keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, EPSILON)

    return layer_norm_rows


KERNEL = Kernel(
    name="layer_norm",
    summary="(x - mean) / sqrt(variance + 1e-5) * gamma + beta of each row",
    sizes={"S": {"n": 32, "d": 128}, "M": {"n": 256, "d": 1024}, "L": {"n": 2048, "d": 4096}},
    dtypes=("float32", "float64", "bfloat16"),
    inputs=inputs,
    work=work,
    # A row's values are of order 1 and up to 8; each of some five steps rounds them, and beta may cancel them.
    # Sequential float32 sums of 4096 values cost another ten units in the last place.
    tolerance={
        "float32": Tolerance(3e-5, 3e-5),
        "float64": Tolerance(3e-13, 3e-13),
        "bfloat16": Tolerance(2e-2, 1e-1),
    },
    array=layer_norm,
    implementations={"numba": numba, "torch": torch, "tensorflow": tensorflow},
    # Not by beta: every output has it once, and the gradient is the number of rows.
    differentiable=(0, 1),
)
