"""trivial: twice one number at a thousand sizes that are alike: a run of them takes little but its harness."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Kernel, Tolerance, Work

SIZES = 1000


def trivial(xp: Any, x: Any) -> Any:
    """Return ``x * 2``, x an array of one number."""
    return x * 2


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw one number, whatever n is."""
    return (rng.uniform(1, 2, 1).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count one multiplication, one number in and one out."""
    return Work(1, 2 * itemsize)


KERNEL = Kernel(
    name="trivial",
    summary="x * 2 of one number",
    sizes={f"n{number:04}": {"n": number} for number in range(1, SIZES + 1)},
    dtypes=("float32",),
    inputs=inputs,
    work=work,
    tolerance={"float32": Tolerance(0.0, 0.0)},
    array=trivial,
)
