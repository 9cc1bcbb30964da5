"""template: the mean of squares, weighted, ``sum(w * x * x) / n``.

A starting file for a kernel of your own; it runs as it stands. Change the five parts from top to bottom, and measure
after each. The first line above is the formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def template(xp: Any, x: Any, w: Any) -> Any:
    """Return the weighted mean of squares of x (n,) by w (n,).

    One body serves NumPy, JAX and PyTorch: xp is numpy, jax.numpy or torch. It is the reference too: outputs of every
    framework are compared with this one over NumPy, in float64.
    """
    return xp.sum(w * x * x) / x.shape[0]


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw x from N(0, 1) and w from [0, 1): a tuple of arrays, random, from rng alone, and in the dtype asked for."""
    return rng.standard_normal(n).astype(dtype), rng.random(n).astype(dtype)


def work(itemsize: int, n: int) -> Work:
    """Count the least that any implementation must do: 3 operations an element; both inputs read, one number written.

    Timings below this work on this machine are flagged. Never count more than is needed.
    """
    return Work(operations=3 * n, nbytes=itemsize * (2 * n + 1))


def numba() -> Function:
    """Write the loops that a person of Numba would; they are compiled by njit. Leave it out where there is no loop."""

    def template_loop(x: Any, w: Any) -> Any:
        # A float64, also for float32: a sum of millions in sequence would lose digits.
        total = 0.0
        for i in range(x.size):
            total += w[i] * x[i] * x[i]
        return x.dtype.type(total / x.size)

    return template_loop


def tensorflow() -> Function:
    """Write it in tf functions; the framework is imported here, and only where it is measured."""
    import tensorflow as tf

    def template_tf(x: Any, w: Any) -> Any:
        return tf.reduce_mean(w * x * x)

    return template_tf


KERNEL = Kernel(
    # Lower case, unlike any of `jitmatrix list`: rows and comparisons go by it.
    name="template",
    summary="sum(w * x * x) / n",
    # The dimensions that inputs and work take, smallest first: one within the caches, one beyond them.
    sizes={"S": {"n": 4_096}, "M": {"n": 131_072}, "L": {"n": 4_194_304}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # |output - reference| <= absolute + relative * |reference|: four times the largest error seen, tried at every size.
    # A key "float32/L" or "float32/gpu" holds for that size or backend alone, where only that one needs more.
    tolerance={"float32": Tolerance(relative=1e-6, absolute=0.0), "float64": Tolerance(relative=2e-13, absolute=0.0)},
    array=template,
    # A framework (jax) or a mode of it (jax/jit) to the function that builds its own form.
    implementations={"numba": numba, "tensorflow": tensorflow},
    # The floating inputs by which a gradient makes sense, counted from 0; () for none.
    differentiable=(0, 1),
)
