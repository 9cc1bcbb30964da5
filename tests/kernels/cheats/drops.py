"""Kernels that do not do the work that they declare; and honest ones of which little is to be counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.spec import Kernel, Tolerance, Work
from kernels.suite import dense, sincos, total

LOOSE = {"float32": Tolerance(1e-3, 1e-3), "float64": Tolerance(1e-9, 1e-9)}


def _pair(rng, dtype, n):
    return rng.standard_normal(n).astype(dtype), rng.standard_normal(n).astype(dtype)


def first_only():
    def call(x, y):
        z = np.empty_like(x)
        for i in range(x.size):
            z[i] = 2 * x[i]
        return z

    return call


UNUSED_INPUT = Kernel(
    name="unused_input",
    summary="2 x of x and y",
    sizes={"S": {"n": 1000}},
    dtypes=("float32", "float64"),
    inputs=_pair,
    work=lambda itemsize, n: Work(n, 3 * itemsize * n),
    tolerance=LOOSE,
    array=lambda xp, x, y: 2 * x,
    implementations={"numba": first_only},
)

UNUSED_ELEMENTS = replace(
    sincos.KERNEL, name="unused_elements", array=lambda xp, x: xp.sin(x[:8]) + xp.cos(x[:8]), implementations={}
)
"""All but eight elements of the output were dropped, and the work with them."""


def unused_result():
    import jax
    import jax.numpy as jnp

    def call(x):
        matrix = jnp.outer(x, x)
        jax.lax.fori_loop(0, 100, lambda _, y: y @ y, matrix)
        return jnp.sum(x)

    return call


UNUSED_RESULT = replace(
    total.KERNEL,
    name="unused_result",
    work=lambda itemsize, n: Work(n * n, itemsize * n),
    implementations={"jax": unused_result},
)
"""A loop whose result nobody uses: the compiler drops all of it."""


def folded_constant():
    import jax.numpy as jnp

    constant = np.random.default_rng(0).standard_normal((48, 48))

    def call(x):
        matrix = jnp.asarray(constant, x.dtype)
        return jnp.sum(matrix @ matrix) * x[0]

    return call


def folded_constant_reference(x):
    constant = np.random.default_rng(0).standard_normal((48, 48))
    return np.sum(constant @ constant) * x[0]


FOLDED_CONSTANT = replace(
    total.KERNEL,
    name="folded_constant",
    sizes={"S": {"n": 8}},
    array=None,
    reference=folded_constant_reference,
    work=lambda itemsize, n: Work(2 * 48**3, itemsize * 48 * 48),
    tolerance=LOOSE,
    implementations={"jax": folded_constant},
)
"""The product of a closed-over constant with itself, which one input merely scales."""


def closed_form():
    def call(x):
        s = 0
        for i in range(x.size):
            s += i
        return s * x[0]

    return call


CLOSED_FORM = replace(
    total.KERNEL,
    name="closed_form",
    dtypes=("float64",),
    array=lambda xp, x: x[0] * (x.size * (x.size - 1) // 2),
    implementations={"numba": closed_form},
)
"""A sum of counters, which the compiler replaces by n (n - 1) / 2."""


def times_zero():
    import numba

    @numba.njit(fastmath=True)
    def call(x):
        s = 0.0
        for i in range(x.size):
            s += x[i] * x[i]
        return x[0] + 0.0 * s

    return call


TIMES_ZERO = replace(
    total.KERNEL,
    name="times_zero",
    dtypes=("float64",),
    array=lambda xp, x: x[0] + 0.0,
    implementations={"numba": times_zero},
)
"""A sum that is multiplied by zero, under rules of arithmetic that let the compiler drop it."""


def formula():
    def call(x):
        return x[0] * len(x)

    return call


FORMULA = replace(
    total.KERNEL,
    name="formula",
    work=lambda itemsize, n: Work(10**9, itemsize * n),
    array=lambda xp, x: x[0] * len(x),
    tolerance=LOOSE,
    implementations={"python": formula, "numba": formula},
)
"""No loop at all where the declared work is one: only the machine's roofline tells, in any framework."""


def nested(xp, x):
    return xp.exp(xp.sin(xp.cos(x)))


TRANSCENDENTAL = replace(
    sincos.KERNEL,
    name="transcendental",
    array=nested,
    tolerance=LOOSE,
    implementations={},
)
"""Honest: three transcendental functions an element, which JAX's compiler counts apart."""

TRANSPOSE = replace(
    dense.KERNEL,
    name="transpose",
    inputs=lambda rng, dtype, n: (rng.standard_normal((n, n)).astype(dtype),),
    sizes={"S": {"n": 40}},
    tolerance=LOOSE,
    array=lambda xp, x: xp.flip(x.T, 0) + 0,
    work=lambda itemsize, n: Work(1, 2 * itemsize * n * n),
    implementations={},
)
"""Honest: moves data and declares no arithmetic."""

QUARTER = replace(
    sincos.KERNEL,
    name="quarter",
    array=lambda xp, x: x + 1,
    work=lambda itemsize, n: Work(4 * n, 2 * itemsize * n),
    implementations={},
)
"""Honest at the limit: a compiler found a way to do it in a quarter of the declared operations."""
