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
        # The sum is a float64, also for float32: one of 10^6 values in sequence would lose digits.
        total, row = 0.0, np.empty(b.size, b.dtype)
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
    # Four times the largest error that any framework showed; the mean is near 0, and the more values it is of, the less
    # of their rounding is left in it. TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds x and w
    # to 11 bits, and a TPU's one pass in bfloat16 to 8: four times what that does to the mean.
    tolerance={
        "float32": Tolerance(1e-6, 2.5e-7),
        "float32/M": Tolerance(1e-6, 2e-8),
        "float32/L": Tolerance(1e-6, 1e-8),
        "float32/gpu": Tolerance(0.0, 2e-5),
        "float32/tpu": Tolerance(0.0, 4e-4),
        "float64": Tolerance(1e-13, 1e-14),
    },
    array=dense,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1, 2),
)
