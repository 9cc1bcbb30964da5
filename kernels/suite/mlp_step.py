"""mlp_step: a step of gradient descent for a perceptron with one hidden layer.

It returns ``loss = mean((tanh(x @ w1 + b1) @ w2 + b2 - y)**2)``, and ``p - RATE * d loss / d p`` for each parameter p.
The gradient is taken by each framework's own means; NumPy and Numba write it out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

RATE = 0.5
"""The step: large, so that a gradient that errs is seen in the parameters."""


def loss(xp: Any, x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """Return the mean squared error of the perceptron's answers to x (n, d_in), where y (n, d_out) is right."""
    error = xp.tanh(x @ w1 + b1) @ w2 + b2 - y
    return xp.mean(error * error)


def reference(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """Return the loss and the new parameters, the gradient by the chain rule."""
    h = np.tanh(x @ w1 + b1)
    error = h @ w2 + b2 - y
    d_out = error * (2 / error.size)
    d_hidden = d_out @ w2.T * (1 - h * h)
    gradients = x.T @ d_hidden, d_hidden.sum(axis=0), h.T @ d_out, d_out.sum(axis=0)
    return np.mean(error * error), *(p - RATE * g for p, g in zip((w1, b1, w2, b2), gradients, strict=True))


def inputs(
    rng: np.random.Generator, dtype: Any, *, n: int, d_in: int, width: int, d_out: int
) -> tuple[np.ndarray, ...]:
    """Draw x, y and the biases from N(0, 1), the weights from N(0, 1 / rows), so that tanh is not saturated."""
    w1 = rng.standard_normal((d_in, width)) / np.sqrt(d_in)
    w2 = rng.standard_normal((width, d_out)) / np.sqrt(width)
    x, y = rng.standard_normal((n, d_in)), rng.standard_normal((n, d_out))
    arrays = x, y, w1, rng.standard_normal(width), w2, rng.standard_normal(d_out)
    return tuple(a.astype(dtype) for a in arrays)


def work(itemsize: int, *, n: int, d_in: int, width: int, d_out: int) -> Work:
    """Count 2 per weight and row for each product: w1 and w2 forward and for their gradients, w2 for the hidden layer.

    To them come bias, tanh and its derivative per hidden unit, and bias, error and square per output.
    """
    parameters = (d_in + 1) * width + (width + 1) * d_out
    products = 2 * n * (2 * d_in * width + 3 * width * d_out)
    return Work(products + n * (6 * width + 5 * d_out), itemsize * (n * (d_in + d_out) + 2 * parameters + 1))


def jax() -> Function:
    """Differentiate by JAX."""
    import jax
    import jax.numpy as jnp

    def mlp_step_jax(x: Any, y: Any, *parameters: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda p: loss(jnp, x, y, *p))(parameters)
        return value, *(p - RATE * g for p, g in zip(parameters, gradients, strict=True))

    return mlp_step_jax


def torch() -> Function:
    """Differentiate by PyTorch's functional transform, which its compiler traces without a break."""
    import torch

    def mlp_step_torch(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        parameters = w1, b1, w2, b2
        gradients, value = torch.func.grad_and_value(lambda p: loss(torch, x, y, *p))(parameters)
        return value, *(p - RATE * g for p, g in zip(parameters, gradients, strict=True))

    return mlp_step_torch


def torch_script() -> Function:
    """Differentiate by PyTorch's autograd: TorchScript knows no functional transform."""
    import torch

    def mlp_step_script(
        x: torch.Tensor,
        y: torch.Tensor,
        w1: torch.Tensor,
        b1: torch.Tensor,
        w2: torch.Tensor,
        b2: torch.Tensor,
        rate: float = RATE,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        parameters = [p.detach().requires_grad_(True) for p in (w1, b1, w2, b2)]
        w1, b1, w2, b2 = parameters
        error = torch.tanh(x @ w1 + b1) @ w2 + b2 - y
        value = torch.mean(error * error)
        updated: list[torch.Tensor] = []
        for p, g in zip(parameters, torch.autograd.grad([value], parameters)):  # noqa: B905 - TorchScript's zip
            assert g is not None
            updated.append(p.detach() - rate * g)
        return value.detach(), updated

    return mlp_step_script


def tensorflow() -> Function:
    """Differentiate by TensorFlow's tape."""
    import tensorflow as tf

    def mlp_step_tensorflow(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        parameters = w1, b1, w2, b2
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            value = tf.reduce_mean(tf.square(tf.tanh(x @ w1 + b1) @ w2 + b2 - y))
        gradients = tape.gradient(value, parameters)
        return value, *(p - RATE * g for p, g in zip(parameters, gradients, strict=True))

    return mlp_step_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would: a row's own share of the gradient is subtracted at once."""

    def mlp_step_loops(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        (n, d_in), (width, d_out) = x.shape, w2.shape
        step, total = x.dtype.type(2 * RATE / (n * d_out)), x.dtype.type(0)
        v1, c1, v2, c2 = w1.copy(), b1.copy(), w2.copy(), b2.copy()
        h, error = np.empty_like(b1), np.empty_like(b2)
        for i in range(n):
            for j in range(width):
                h[j] = b1[j]
            for k in range(d_in):
                for j in range(width):
                    h[j] += x[i, k] * w1[k, j]
            for o in range(d_out):
                error[o] = b2[o] - y[i, o]
            for j in range(width):
                h[j] = math.tanh(h[j])
                for o in range(d_out):
                    error[o] += h[j] * w2[j, o]
            for o in range(d_out):
                total += error[o] * error[o]
                error[o] *= step
                c2[o] -= error[o]
            for j in range(width):
                back = x.dtype.type(0)
                for o in range(d_out):
                    back += error[o] * w2[j, o]
                    v2[j, o] -= error[o] * h[j]
                h[j] = back * (1 - h[j] * h[j])
                c1[j] -= h[j]
            for k in range(d_in):
                for j in range(width):
                    v1[k, j] -= x[i, k] * h[j]
        return x.dtype.type(total / (n * d_out)), v1, c1, v2, c2

    return mlp_step_loops


KERNEL = Kernel(
    name="mlp_step",
    summary="gradient descent on mean((tanh(x @ w1 + b1) @ w2 + b2 - y)**2)",
    sizes={
        "S": {"n": 16, "d_in": 32, "width": 64, "d_out": 8},
        "M": {"n": 128, "d_in": 128, "width": 256, "d_out": 16},
        "L": {"n": 256, "d_in": 1024, "width": 2048, "d_out": 64},
    },
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # The loss is a mean of positive terms; a new parameter errs by the rounding of a sum over up to 256 rows, each of
    # which is small beside the parameter.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 1e-6),
        "float32/gpu": Tolerance(1e-3, 1e-3),
        "float32/tpu": Tolerance(1e-2, 1e-2),
        "float64": Tolerance(1e-13, 1e-14),
    },
    implementations={
        "numpy": lambda: reference,
        "numba": numba,
        "jax": jax,
        "torch": torch,
        "torch/script": torch_script,
        "tensorflow": tensorflow,
    },
    reference=reference,
)
