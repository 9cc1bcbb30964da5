"""mlp: one step of gradient descent on a network with one hidden layer, the loss the mean squared error."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

RATE = 0.1
"""Step of the descent."""


def step(w: Any, v: Any, x: Any, y: Any) -> Any:
    """Return w and v after a step, the gradient written out: ``loss = mean((tanh(x @ w) @ v - y)**2)``."""
    hidden = np.tanh(x @ w)
    error = 2 * (hidden @ v - y) / y.size
    return w - RATE * (x.T @ (error @ v.T * (1 - hidden**2))), v - RATE * (hidden.T @ error)


def inputs(rng: np.random.Generator, dtype: Any, batch: int, features: int, hidden: int) -> tuple[np.ndarray, ...]:
    """Draw x and y from N(0, 1), the weights w and v scaled by the width that they sum over."""
    w = rng.standard_normal((features, hidden)) / np.sqrt(features)
    v = rng.standard_normal((hidden, 1)) / np.sqrt(hidden)
    arrays = (w, v, rng.standard_normal((batch, features)), rng.standard_normal((batch, 1)))
    return tuple(a.astype(dtype) for a in arrays)


def work(itemsize: int, batch: int, features: int, hidden: int) -> Work:
    """Count the products forward and back; every array is read once and the weights are written."""
    weights = features * hidden + hidden
    return Work(4 * batch * weights, itemsize * (2 * weights + batch * (features + 1)))


def jax() -> Function:
    """Write it as a person of JAX would: the loss, and its gradient by ``jax.grad``."""
    import jax as framework
    from jax import numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        w, v = weights
        return jnp.mean((jnp.tanh(x @ w) @ v - y) ** 2)

    def mlp(w: Any, v: Any, x: Any, y: Any) -> Any:
        towards_w, towards_v = framework.grad(loss)((w, v), x, y)
        return w - RATE * towards_w, v - RATE * towards_v

    return mlp


KERNEL = Kernel(
    name="mlp",
    summary="(w, v) - rate * grad mean((tanh(x @ w) @ v - y)**2)",
    sizes={"S": {"batch": 16, "features": 16, "hidden": 16}, "M": {"batch": 128, "features": 256, "hidden": 256}},
    dtypes=("float32",),
    inputs=inputs,
    work=work,
    # The step is small beside the weights: most of an error in the gradient is lost in them, what is left is rounding.
    tolerance={"float32": Tolerance(1e-4, 1e-5)},
    reference=step,
    implementations={"jax": jax},
)
