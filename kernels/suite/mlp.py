"""mlp: a perceptron of three layers, ``tanh(tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3``.

The activation is tanh: smooth, so that the second derivative exists everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def mlp(xp: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    """Return the last layer's outputs (n, d_out) for x (n, d_in), w1 (d_in, width), w2 (width, width)."""
    h = xp.tanh(xp.tanh(x @ w1 + b1) @ w2 + b2)
    return h @ w3 + b3


def inputs(
    rng: np.random.Generator, dtype: Any, *, n: int, d_in: int, width: int, d_out: int
) -> tuple[np.ndarray, ...]:
    """Draw x and the biases from N(0, 1), the weights from N(0, 1 / rows), so that tanh is not saturated."""
    arrays = [rng.standard_normal((n, d_in))]
    for rows, columns in ((d_in, width), (width, width), (width, d_out)):
        arrays += [rng.standard_normal((rows, columns)) / np.sqrt(rows), rng.standard_normal(columns)]
    return tuple(a.astype(dtype) for a in arrays)


def work(itemsize: int, *, n: int, d_in: int, width: int, d_out: int) -> Work:
    """Count 2 per weight and row for the products, a bias per output of a layer and a tanh per hidden unit."""
    weights = d_in * width + width * width + width * d_out
    nbytes = itemsize * (n * (d_in + d_out) + weights + 2 * width + d_out)
    return Work(n * (2 * weights + 4 * width + d_out), nbytes)


def numba() -> Function:
    """Write the loops that a person of Numba would; its np.dot would need SciPy beside it."""

    def mlp_loops(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
        for layer, (w, b) in enumerate(((w1, b1), (w2, b2), (w3, b3))):
            y = np.empty((x.shape[0], b.size), b.dtype)
            for i in range(x.shape[0]):
                for j in range(b.size):
                    y[i, j] = b[j]
                for k in range(x.shape[1]):
                    for j in range(b.size):
                        y[i, j] += x[i, k] * w[k, j]
                if layer < 2:
                    for j in range(b.size):
                        y[i, j] = math.tanh(y[i, j])
            x = y
        return x

    return mlp_loops


def tensorflow() -> Function:
    """Write it with TensorFlow's own functions."""
    import tensorflow as tf

    def mlp_tensorflow(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
        h = tf.tanh(tf.tanh(x @ w1 + b1) @ w2 + b2)
        return h @ w3 + b3

    return mlp_tensorflow


KERNEL = Kernel(
    name="mlp",
    summary="tanh(tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3",
    sizes={
        "S": {"n": 16, "d_in": 32, "width": 64, "d_out": 8},
        "M": {"n": 128, "d_in": 128, "width": 256, "d_out": 16},
        "L": {"n": 256, "d_in": 1024, "width": 2048, "d_out": 64},
    },
    dtypes=("float32", "float64", "bfloat16"),
    inputs=inputs,
    work=work,
    # Outputs near N(0, 2), each a sum of up to 2048 products: some hundred roundings of eps, or few in bfloat16, whose
    # products are summed in float32 and rounded after each layer.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 3e-5),
        "float32/gpu": Tolerance(2e-3, 3e-3),
        "float32/tpu": Tolerance(2e-2, 2e-2),
        "float64": Tolerance(1e-13, 1e-13),
        "bfloat16": Tolerance(2e-2, 4e-2),
    },
    array=mlp,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1, 2, 3, 4, 5, 6),
)
