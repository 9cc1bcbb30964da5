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


def numba() -> Function:
    """Write the sequential loop. It adds in float64: in float32 it would lose digits that other sums keep."""

    def total_loop(x: Any) -> Any:
        s = 0.0
        for i in range(x.size):
            s += x[i]
        return x.dtype.type(s)

    return total_loop


def python() -> Function:
    """Write the same loop over a list of Python's own numbers."""

    def total_of_list(x: Any) -> Any:
        s = 0.0
        for value in x:
            s += value
        return s

    return total_of_list


def tensorflow() -> Function:
    """Name TensorFlow's own reduction."""
    import tensorflow as tf

    def total_tf(x: Any) -> Any:
        return tf.reduce_sum(x)

    return total_tf


KERNEL = Kernel(
    name="total",
    summary="sum(x)",
    sizes={"S": {"n": 1_000}, "M": {"n": 100_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Four times the largest error that any framework showed: sums by pairs or lanes, of which long ones take more; in
    # float64, sequential ones too.
    tolerance={
        "float32": Tolerance(1e-6, 0.0),
        "float32/M": Tolerance(3e-7, 0.0),
        "float32/L": Tolerance(3e-7, 0.0),
        "float64": Tolerance(1e-13, 0.0),
    },
    array=total,
    implementations={"numba": numba, "python": python, "tensorflow": tensorflow},
    differentiable=(0,),
    linear=True,
)
