"""rnn: a recurrent layer, ``h = tanh(x[t] @ w_x + h @ w_h + b)`` for every t; the last h.

PyTorch's compilers unroll the steps: their number is kept moderate, so that compilation does not take minutes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def rnn(xp: Any, x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    """Return the last state (n, width), of x (steps, n, d_in), h (n, width), w_x (d_in, width), w_h (width, width)."""
    for t in range(x.shape[0]):
        h = xp.tanh(x[t] @ w_x + h @ w_h + b)
    return h


def inputs(
    rng: np.random.Generator, dtype: Any, *, steps: int, n: int, d_in: int, width: int
) -> tuple[np.ndarray, ...]:
    """Draw x and h from N(0, 1), the rest so small that tanh is not saturated: the first state is felt in the last."""
    x, h = rng.standard_normal((steps, n, d_in)), rng.standard_normal((n, width))
    w_x = rng.standard_normal((d_in, width)) / (4 * np.sqrt(d_in))
    w_h = rng.standard_normal((width, width)) / np.sqrt(width)
    return tuple(a.astype(dtype) for a in (x, h, w_x, w_h, rng.standard_normal(width) / 4))


def work(itemsize: int, *, steps: int, n: int, d_in: int, width: int) -> Work:
    """Count 2 per weight, and two sums and a tanh per unit, for every row and step."""
    weights = (d_in + width) * width
    nbytes = itemsize * (steps * n * d_in + 2 * n * width + weights + width)
    return Work(steps * n * (2 * weights + 3 * width), nbytes)


def jax() -> Function:
    """Scan over the steps; without jit, every call of a scan would compile it anew."""
    import jax.numpy as jnp
    from jax import lax

    def rnn_jax(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        return lax.scan(lambda h, row: (jnp.tanh(row @ w_x + h @ w_h + b), None), h, x)[0]

    return rnn_jax


def torch() -> Function:
    """Loop over the steps, with the types that TorchScript reads."""
    import torch

    def rnn_torch(
        x: torch.Tensor, h: torch.Tensor, w_x: torch.Tensor, w_h: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        for t in range(x.shape[0]):
            h = torch.tanh(x[t] @ w_x + h @ w_h + b)
        return h

    return rnn_torch


def tensorflow() -> Function:
    """Loop within the program, for a number of steps that XLA must know to take a derivative."""
    import tensorflow as tf

    def rnn_tensorflow(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        steps = x.shape[0]

        def step(t: Any, h: Any) -> Any:
            return t + 1, tf.tanh(x[t] @ w_x + h @ w_h + b)

        return tf.while_loop(lambda t, _: t < steps, step, (tf.constant(0), h), maximum_iterations=steps)[1]

    return rnn_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would."""

    def rnn_loops(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        steps, n, d_in = x.shape
        width = b.size
        old, new = h.copy(), np.empty_like(h)
        for t in range(steps):
            for i in range(n):
                for j in range(width):
                    new[i, j] = b[j]
                for k in range(d_in):
                    for j in range(width):
                        new[i, j] += x[t, i, k] * w_x[k, j]
                for k in range(width):
                    for j in range(width):
                        new[i, j] += old[i, k] * w_h[k, j]
                for j in range(width):
                    new[i, j] = math.tanh(new[i, j])
            old, new = new, old
        return old

    return rnn_loops


KERNEL = Kernel(
    name="rnn",
    summary="h = tanh(x[t] @ w_x + h @ w_h + b) for every t",
    sizes={
        "S": {"steps": 16, "n": 8, "d_in": 16, "width": 32},
        "M": {"steps": 64, "n": 32, "d_in": 64, "width": 128},
        "L": {"steps": 128, "n": 32, "d_in": 512, "width": 512},
    },
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A step rounds sums of up to 1024 products; tanh and the weights damp what the steps before left.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 2e-5),
        "float32/gpu": Tolerance(2e-3, 3e-3),
        "float32/tpu": Tolerance(2e-2, 2e-2),
        "float64": Tolerance(1e-13, 1e-13),
    },
    array=rnn,
    implementations={"jax/jit": jax, "numba": numba, "torch": torch, "tensorflow": tensorflow},
    differentiable=(0, 1, 2, 3, 4),
)
