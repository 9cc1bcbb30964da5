"""sincos: ``sin(x) + cos(x)``, the widely quoted comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def sincos(xp: Any, x: Any) -> Any:
    """Return ``sin(x) + cos(x)``, elementwise, x (n,)."""
    return xp.sin(x) + xp.cos(x)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x uniformly from one period on each side of zero."""
    return (rng.uniform(-2 * np.pi, 2 * np.pi, n).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count a sine, a cosine and an addition per element; x is read and the result written once."""
    return Work(3 * n, 2 * itemsize * n)


def numba() -> Function:
    """Write the loop that a person of Numba would."""

    def sincos_loop(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = math.sin(x[i]) + math.cos(x[i])
        return y

    return sincos_loop


def tensorflow() -> Function:
    """Write it in TensorFlow's operations."""
    import tensorflow as tf

    def sincos_tf(x: Any) -> Any:
        return tf.sin(x) + tf.cos(x)

    return sincos_tf


KERNEL = Kernel(
    name="sincos",
    summary="sin(x) + cos(x)",
    sizes={"S": {"n": 1_000}, "M": {"n": 100_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Library sines differ by a few units in the last place; near a zero of the sum only the absolute part helps.
    tolerance={"float32": Tolerance(1e-5, 1e-6), "float64": Tolerance(1e-13, 1e-14)},
    array=sincos,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0,),
)
