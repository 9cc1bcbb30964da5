"""segment_sum: ``y[s] = sum of x[i] over all i with segments[i] = s``, the scatter of graphs, histograms and gradients.

It has no derivative here: it is linear, so its gradient is the same whatever the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

PER_SEGMENT = 16
"""Values of a segment, on average: the number of segments follows from the length of x."""


def segment_sum(x: Any, segments: Any) -> Any:
    """Sum the values of x (n,) by their segment (n,), int32 in no order: (n // 16,)."""
    y = np.zeros(x.size // PER_SEGMENT, x.dtype)
    np.add.at(y, segments, x)
    return y


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1), and the segments uniformly."""
    return rng.standard_normal(n).astype(dtype), rng.integers(0, n // PER_SEGMENT, n).astype(np.int32)


def work(itemsize: int, n: int) -> Work:
    """Count the additions but the first of each segment; values and int32 indices are read, sums written once."""
    return Work(n - n // PER_SEGMENT, itemsize * (n + n // PER_SEGMENT) + 4 * n)


def numba() -> Function:
    """Write the one loop."""

    def segment_sum_loop(x: Any, segments: Any) -> Any:
        y = np.zeros(x.size // PER_SEGMENT, x.dtype)
        for i in range(x.size):
            y[segments[i]] += x[i]
        return y

    return segment_sum_loop


def jax() -> Function:
    """Take JAX's own, which is a scatter-add."""
    import jax

    return lambda x, segments: jax.ops.segment_sum(x, segments, num_segments=x.size // PER_SEGMENT)


def torch() -> Function:
    """Add by index into zeros."""
    import torch

    def index_add(x: torch.Tensor, segments: torch.Tensor, per_segment: int = PER_SEGMENT) -> torch.Tensor:
        return torch.zeros(x.shape[0] // per_segment, dtype=x.dtype, device=x.device).index_add_(0, segments, x)

    return index_add


def tensorflow() -> Function:
    """Take TensorFlow's own for segments in no order."""
    import tensorflow as tf

    return lambda x, segments: tf.math.unsorted_segment_sum(x, segments, x.shape[0] // PER_SEGMENT)


KERNEL = Kernel(
    name="segment_sum",
    summary="y[s] = sum of x[i] over all i with segments[i] = s",
    sizes={"S": {"n": 4_000}, "M": {"n": 200_000}, "L": {"n": 4_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Some 16 values, never more than 60, are added in any order, and may cancel.
    tolerance={"float32": Tolerance(1e-6, 1e-5), "float64": Tolerance(1e-15, 1e-14)},
    reference=segment_sum,
    implementations={
        "numpy": lambda: segment_sum,
        "numba": numba,
        "jax": jax,
        "torch": torch,
        "tensorflow": tensorflow,
    },
)
