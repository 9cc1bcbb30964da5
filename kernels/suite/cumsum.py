"""cumsum: the running sum of a vector, ``y[i] = x[0] + ... + x[i]``.

It has no derivative here: it is linear, so its gradient is the same whatever the inputs.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def cumsum(xp: Any, x: Any) -> Any:
    """Return the running sum of x (n,)."""
    return xp.cumsum(x, axis=0)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x uniformly from [0, 1): sums far from zero, so that a relative tolerance is fair."""
    return (rng.random(n).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count n - 1 additions, the sequential sum's; parallel scans do more. Read and written once."""
    return Work(n - 1, 2 * itemsize * n)


def numba() -> Function:
    """Write the sequential loop."""

    def cumsum_loop(x: Any) -> Any:
        y = np.empty_like(x)
        s = x.dtype.type(0)
        for i in range(x.size):
            s += x[i]
            y[i] = s
        return y

    return cumsum_loop


def python() -> Function:
    """Take the standard library's running sum."""
    return lambda x: list(itertools.accumulate(x))


def tensorflow() -> Function:
    """Take TensorFlow's running sum."""
    import tensorflow as tf

    def running_sum(x: Any) -> Any:
        return tf.cumsum(x)

    return running_sum


KERNEL = Kernel(
    name="cumsum",
    summary="y[i] = x[0] + ... + x[i]",
    sizes={"S": {"n": 1_000}, "M": {"n": 100_000}, "L": {"n": 4_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Four times the largest error that any framework showed: that of a sequential sum in float32, NumPy's too, which
    # grows with its length; in float64 that of the sequential reference.
    tolerance={
        "float32": Tolerance(4e-6, 0.0),
        "float32/M": Tolerance(4e-5, 0.0),
        "float32/L": Tolerance(2.5e-4, 0.0),
        "float64": Tolerance(1e-12, 0.0),
    },
    array=cumsum,
    implementations={"numba": numba, "python": python, "tensorflow": tensorflow},
)
