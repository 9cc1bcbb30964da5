"""dense: one dense layer and its mean, ``mean(tanh(x @ w + b))``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def dense(xp: Any, x: Any, w: Any, b: Any) -> Any:
    """Return the mean of ``tanh(x @ w + b)``: x (n, d_in), w (d_in, d_out), b (d_out,)."""
    return xp.mean(xp.tanh(x @ w + b))


def inputs(rng: np.random.Generator, dtype: Any, n: int, d_in: int, d_out: int) -> tuple[np.ndarray, ...]:
    """Draw x and b from N(0, 1), w from N(0, 1/d_in), so that tanh is not saturated."""
    w = rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)
    return tuple(a.astype(dtype) for a in (rng.standard_normal((n, d_in)), w, rng.standard_normal(d_out)))


def work(itemsize: int, n: int, d_in: int, d_out: int) -> Work:
    """Count 2·n·d_in·d_out for the product, and bias, tanh and sum once per element."""
    return Work(2 * n * d_in * d_out + 3 * n * d_out, itemsize * (n * d_in + d_in * d_out + d_out + 1))


def numba() -> Function:
    """Write the loops that a person of Numba would; its np.dot would need SciPy beside it."""

    def dense_loops(x: Any, w: Any, b: Any) -> Any:
        total, row = x.dtype.type(0), np.empty(b.size, b.dtype)
        for i in range(x.shape[0]):
            # A slice assignment here would cost a second of compilation.
            for j in range(row.size):
                row[j] = b[j]
            for k in range(x.shape[1]):
                for j in range(row.size):
                    row[j] += x[i, k] * w[k, j]
            for j in range(row.size):
                total += math.tanh(row[j])
        return x.dtype.type(total / (x.shape[0] * row.size))

    return dense_loops


def tensorflow() -> Function:
    """Write it in TensorFlow's operations."""
    import tensorflow as tf

    def dense_tf(x: Any, w: Any, b: Any) -> Any:
        return tf.reduce_mean(tf.tanh(tf.matmul(x, w) + b))

    return dense_tf


KERNEL = Kernel(
    name="dense",
    summary="mean(tanh(x @ w + b))",
    sizes={
        "S": {"n": 64, "d_in": 64, "d_out": 32},
        "M": {"n": 1000, "d_in": 500, "d_out": 200},
        "L": {"n": 2000, "d_in": 500, "d_out": 400},
    },
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A mean of up to 10^6 values near 0: the absolute part is the rounding of a sequential float32 sum of them.
    tolerance={"float32": Tolerance(1e-3, 1e-5), "float64": Tolerance(1e-9, 1e-12)},
    array=dense,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1, 2),
)
