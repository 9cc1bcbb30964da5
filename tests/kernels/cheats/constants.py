"""Kernels whose answer is known before the clock starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.spec import Tolerance
from kernels.suite import sincos, total

TABLE = np.linspace(0.5, 1.5, 64)
LOOSE = {"float32": Tolerance(1e-3, 1e-3), "float64": Tolerance(1e-9, 1e-9)}
ONE_SIZE = {"S": {"n": 64}}


def closed_over_jax():
    import jax.numpy as jnp

    def call(x):
        return jnp.sin(jnp.asarray(TABLE, x.dtype)) + jnp.cos(jnp.asarray(TABLE, x.dtype))

    return call


def closed_over_numba():
    def call(x):
        return TABLE[0] + TABLE[1]

    return call


def prepared():
    answer = np.sin(TABLE) + np.cos(TABLE)

    def call(x):
        return answer.astype(x.dtype)

    return call


def _fixed(rng, dtype, n):
    return (TABLE.astype(dtype),)


CLOSED_OVER = replace(
    sincos.KERNEL,
    name="closed_over",
    sizes=ONE_SIZE,
    inputs=_fixed,
    tolerance=LOOSE,
    implementations={"jax": closed_over_jax, "numpy": prepared},
)
"""Inputs that never change, so that a kernel may hold the answer and ignore them."""

CLOSED_OVER_LOOP = replace(
    total.KERNEL,
    name="closed_over_loop",
    sizes=ONE_SIZE,
    tolerance=LOOSE,
    dtypes=("float64",),
    inputs=_fixed,
    array=lambda xp, x: x[0] + x[1],
    implementations={"numba": closed_over_numba, "python": lambda: lambda x: float(TABLE[0] + TABLE[1])},
)

NO_INPUTS = replace(
    sincos.KERNEL,
    name="no_inputs",
    sizes={"S": {"n": 64}},
    dtypes=("float64",),
    inputs=lambda rng, dtype, n: (),
    array=lambda xp: (xp.asarray(TABLE) * 2).sum(),
    implementations={"numba": lambda: lambda: TABLE[0] * 256.0},
    reference=(TABLE * 2).sum,
    tolerance=LOOSE,
)

ZEROS = replace(sincos.KERNEL, name="zeros", inputs=lambda rng, dtype, n: (np.zeros(n, dtype),))


def ignores(xp, x):
    return xp.sum(x) * 0 + 3


IGNORES = replace(
    total.KERNEL,
    name="ignores",
    array=ignores,
    implementations={"python": lambda: lambda x: sum(x) * 0 + 3.0, "numba": lambda: lambda x: x.sum() * 0 + 3.0},
    dtypes=("float64",),
)
"""Every input is multiplied by zero."""
