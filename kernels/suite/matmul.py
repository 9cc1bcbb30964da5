"""matmul: the matrix product ``x @ y``."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def matmul(xp: Any, x: Any, y: Any) -> Any:
    """Return ``x @ y``: x (n, k), y (k, m)."""
    return x @ y


def inputs(rng: np.random.Generator, dtype: Any, n: int, k: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1) and y from N(0, 1/k), so that the product is of order 1 at every size."""
    y = rng.standard_normal((k, m)) / np.sqrt(k)
    return rng.standard_normal((n, k)).astype(dtype), y.astype(dtype)


def work(itemsize: int, n: int, k: int, m: int) -> Work:
    """Count 2·n·k·m, the usual count of a product by its definition; every element is moved once."""
    return Work(2 * n * k * m, itemsize * (n * k + k * m + n * m))


def numba() -> Function:
    """Write the loops, innermost along rows; Numba's np.dot would need SciPy beside it."""

    def matmul_loops(x: Any, y: Any) -> Any:
        z = np.zeros((x.shape[0], y.shape[1]), x.dtype)
        for i in range(x.shape[0]):
            for k in range(x.shape[1]):
                for j in range(y.shape[1]):
                    z[i, j] += x[i, k] * y[k, j]
        return z

    return matmul_loops


def tensorflow() -> Function:
    """Take TensorFlow's product."""
    import tensorflow as tf

    def multiply(x: Any, y: Any) -> Any:
        return tf.matmul(x, y)

    return multiply


KERNEL = Kernel(
    name="matmul",
    summary="x @ y",
    # No two lengths are equal, so that a transposed operand cannot pass.
    sizes={
        "S": {"n": 64, "k": 48, "m": 32},
        "M": {"n": 256, "k": 192, "m": 128},
        "L": {"n": 2048, "k": 1024, "m": 1536},
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
    array=matmul,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1),
)
