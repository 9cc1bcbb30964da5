"""transpose: ``y[j, i] = x[i, j]``, written out row by row; a view of x would move nothing.

It has no derivative here: it is linear, so its gradient is the same whatever the inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def transpose(x: Any) -> Any:
    """Return the transpose of x (n, m), contiguous."""
    return np.ascontiguousarray(x.T)


def inputs(rng: np.random.Generator, dtype: Any, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1)."""
    return (rng.standard_normal((n, m)).astype(dtype),)


def work(itemsize: int, n: int, m: int) -> Work:
    """Count one operation, the least that can be declared, for none; every element is read and written once."""
    return Work(1, 2 * itemsize * n * m)


def numba() -> Function:
    """Write the loops in blocks of 16 by 16: a cache line of the one side serves a whole block."""

    def transpose_loops(x: Any) -> Any:
        n, m = x.shape
        y = np.empty((m, n), x.dtype)
        for row in range(0, n, 16):
            for column in range(0, m, 16):
                for j in range(column, min(column + 16, m)):
                    for i in range(row, min(row + 16, n)):
                        y[j, i] = x[i, j]
        return y

    return transpose_loops


def jax() -> Function:
    """Transpose: JAX has no views."""
    return lambda x: x.T


def torch() -> Function:
    """Write the view out."""
    import torch

    def transpose_copy(x: torch.Tensor) -> torch.Tensor:
        return torch.transpose(x, 0, 1).contiguous()

    return transpose_copy


def tensorflow() -> Function:
    """Transpose: TensorFlow has no views."""
    import tensorflow as tf

    def transposed(x: Any) -> Any:
        return tf.transpose(x)

    return transposed


KERNEL = Kernel(
    name="transpose",
    summary="y[j, i] = x[i, j], contiguous",
    # Not powers of two, whose columns all fall on the same few lines of a cache.
    sizes={"S": {"n": 60, "m": 50}, "M": {"n": 600, "m": 500}, "L": {"n": 3000, "m": 2000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # What is only moved is not rounded.
    tolerance={"float32": Tolerance(0.0, 0.0), "float64": Tolerance(0.0, 0.0)},
    reference=transpose,
    implementations={
        "numpy": lambda: transpose,
        "numba": numba,
        "jax": jax,
        "torch": torch,
        "tensorflow": tensorflow,
    },
)
