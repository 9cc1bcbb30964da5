"""batched_matmul: many small matrix products at once, ``z[b] = x[b] @ y[b]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def batched_matmul(xp: Any, x: Any, y: Any) -> Any:
    """Return the product of each pair of matrices: x (batch, n, k), y (batch, k, m)."""
    return x @ y


def inputs(rng: np.random.Generator, dtype: Any, *, batch: int, n: int, k: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1) and y from N(0, 1/k), so that the products are of order 1 at every size."""
    y = rng.standard_normal((batch, k, m)) / np.sqrt(k)
    return rng.standard_normal((batch, n, k)).astype(dtype), y.astype(dtype)


def work(itemsize: int, batch: int, n: int, k: int, m: int) -> Work:
    """Count 2·n·k·m a product, the usual count by its definition; every element is moved once."""
    return Work(2 * batch * n * k * m, itemsize * batch * (n * k + k * m + n * m))


def numba() -> Function:
    """Write the loops, innermost along rows."""

    def batched_matmul_loops(x: Any, y: Any) -> Any:
        z = np.zeros((x.shape[0], x.shape[1], y.shape[2]), x.dtype)
        for b in range(x.shape[0]):
            for i in range(x.shape[1]):
                for k in range(x.shape[2]):
                    for j in range(y.shape[2]):
                        z[b, i, j] += x[b, i, k] * y[b, k, j]
        return z

    return batched_matmul_loops


def tensorflow() -> Function:
    """Take TensorFlow's product, which runs over leading dimensions."""
    import tensorflow as tf

    def multiply(x: Any, y: Any) -> Any:
        return tf.matmul(x, y)

    return multiply


KERNEL = Kernel(
    name="batched_matmul",
    summary="z[b] = x[b] @ y[b]",
    # No two lengths of a matrix are equal, so that a transposed operand cannot pass.
    sizes={
        "S": {"batch": 8, "n": 32, "k": 24, "m": 16},
        "M": {"batch": 32, "n": 64, "k": 48, "m": 32},
        "L": {"batch": 96, "n": 256, "k": 192, "m": 128},
    },
    dtypes=("float32", "float64", "bfloat16"),
    inputs=inputs,
    work=work,
    # Rounding adds up to sqrt(k)·eps of order-1 sums; bfloat16 products are summed in float32, the result rounded.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 1e-5),
        "float32/gpu": Tolerance(2e-3, 3e-3),
        "float32/tpu": Tolerance(2e-2, 2e-2),
        "float64": Tolerance(1e-13, 1e-13),
        "bfloat16": Tolerance(1e-2, 1e-2),
    },
    array=batched_matmul,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1),
)
