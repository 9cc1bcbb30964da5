"""conv2d: a convolution layer, ``y[n, i, j, o] = sum over (p, q, c) of x[n, i + p, j + q, c] * w[p, q, c, o]``.

Images are NHWC, filters HWIO, stride 1, no padding: the layout that TensorFlow needs on a CPU, and that PyTorch calls
channels_last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def reference(x: Any, w: Any) -> Any:
    """Return x (n, height, width, c) convolved with w (k, k, c, o): one matrix product of all its windows."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
    return np.tensordot(windows, w, axes=((3, 4, 5), (2, 0, 1)))


def inputs(
    rng: np.random.Generator, dtype: Any, *, n: int, side: int, c: int, o: int, k: int
) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1), w from N(0, 1/(k·k·c)), so that outputs are N(0, 1)."""
    w = rng.standard_normal((k, k, c, o)) / np.sqrt(k * k * c)
    return rng.standard_normal((n, side, side, c)).astype(dtype), w.astype(dtype)


def work(itemsize: int, *, n: int, side: int, c: int, o: int, k: int) -> Work:
    """Count the k·k·c products of every output and their sum; Winograd's way takes 4/9 of the products at k = 3."""
    out = n * (side - k + 1) ** 2 * o
    return Work(out * k * k * c * 2 * 4 // 9, itemsize * (n * side * side * c + k * k * c * o + out))


def jax() -> Function:
    """Take JAX's general convolution."""
    from jax import lax

    def conv2d_jax(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return conv2d_jax


def torch() -> Function:
    """Take PyTorch's convolution on views in its order of axes: no data moves."""
    import torch

    def conv2d_torch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)

    return conv2d_torch


def tensorflow() -> Function:
    """Take TensorFlow's convolution."""
    import tensorflow as tf

    def conv2d_tensorflow(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, strides=1, padding="VALID")

    return conv2d_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would, output channels innermost."""

    def conv2d_loops(x: Any, w: Any) -> Any:
        y = np.zeros((x.shape[0], x.shape[1] - w.shape[0] + 1, x.shape[2] - w.shape[1] + 1, w.shape[3]), x.dtype)
        for n in range(y.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    for p in range(w.shape[0]):
                        for q in range(w.shape[1]):
                            for c in range(w.shape[2]):
                                for o in range(y.shape[3]):
                                    y[n, i, j, o] += x[n, i + p, j + q, c] * w[p, q, c, o]
        return y

    return conv2d_loops


KERNEL = Kernel(
    name="conv2d",
    summary="2-D convolution, NHWC with HWIO, stride 1, no padding",
    sizes={
        "S": {"n": 1, "side": 16, "c": 8, "o": 8, "k": 3},
        "M": {"n": 4, "side": 32, "c": 16, "o": 32, "k": 3},
        "L": {"n": 16, "side": 64, "c": 32, "o": 64, "k": 3},
    },
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Sums of up to 288 products of N(0, 1) in all: some tens of roundings of eps; Winograd's way loses a digit more.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 2e-5),
        "float32/gpu": Tolerance(2e-3, 3e-3),
        "float32/tpu": Tolerance(2e-2, 2e-2),
        "float64": Tolerance(1e-13, 1e-13),
    },
    implementations={
        "numpy": lambda: reference,
        "numba": numba,
        "jax": jax,
        "torch": torch,
        "tensorflow": tensorflow,
    },
    reference=reference,
    differentiable=(0, 1),
)
