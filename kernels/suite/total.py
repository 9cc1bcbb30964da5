"""total: the sum of a vector, the loop that Numba compiles and Python walks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def total(xp: Any, x: Any) -> Any:
    """Return the sum of x (n,)."""
    return xp.sum(x)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x uniformly from [0, 1): a sum far from zero, so that a relative tolerance is fair."""
    return (rng.random(n).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count n - 1 additions; x is read once."""
    return Work(max(n - 1, 1), itemsize * (n + 1))


def loop() -> Function:
    """Write the sequential loop, for Numba and for plain Python."""

    def total_loop(x: Any) -> Any:
        s = x[0]
        for i in range(1, len(x)):
            s += x[i]
        return s

    return total_loop


def tensorflow() -> Function:
    """Name TensorFlow's own reduction."""
    import tensorflow as tf

    def total_tf(x: Any) -> Any:
        return tf.reduce_sum(x)

    return total_tf


KERNEL = Kernel(
    name="total",
    summary="sum(x)",
    sizes={"S": {"n": 1_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A sequential float32 sum of 10^6 values of one sign errs by up to n·eps/2, in practice by its hundredth part.
    tolerance={"float32": Tolerance(2e-3, 0.0), "float64": Tolerance(1e-11, 0.0)},
    array=total,
    implementations={"numba": loop, "python": loop, "tensorflow": tensorflow},
    differentiable=(0,),
    linear=True,
)
