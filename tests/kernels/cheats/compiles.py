"""Kernels that compile while they are timed."""

from __future__ import annotations

import functools
from dataclasses import replace

from kernels.suite import sincos, total


def new_jit():
    import jax
    import jax.numpy as jnp

    def call(x):
        return jax.jit(lambda y: jnp.sin(y) + jnp.cos(y))(x)

    return call


def static_counter():
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(lambda n, y: jnp.sin(y) + jnp.cos(y) + 0 * n, static_argnums=0)
    calls = iter(range(10**9))

    return lambda x: compiled(next(calls), x)


def growing():
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(lambda y: jnp.sin(y) + jnp.cos(y))
    calls = iter(range(1, 10**9))

    def call(x):
        return compiled(jnp.pad(x, (0, next(calls))))[: x.size]

    return call


class Staged:
    """Has the stages of a jitted function, and does something else when called."""

    def __init__(self, jitted, call):
        self._jitted, self._call = jitted, call

    def trace(self, *args):
        return self._jitted.trace(*args)

    def lower(self, *args):
        return self._jitted.lower(*args)

    def __call__(self, *args):
        return self._call(*args)


def staged_new_jit():
    import jax

    def body(y):
        import jax.numpy as jnp

        return jnp.sin(y) + jnp.cos(y)

    def call(x):
        return jax.jit(functools.partial(body))(x)

    return Staged(jax.jit(body), call)


def weak_state():
    """Begin with a number of Python and go on with an array: the second call is another program than the first."""
    import jax
    import jax.numpy as jnp

    jitted = jax.jit(lambda y, state=1.0: (jnp.sin(y) + jnp.cos(y)) * state)
    state = [1.0]

    def call(x):
        output = jitted(x, state[0])
        state[0] = jnp.ones((), x.dtype)
        return output

    return Staged(jitted, call)


def new_dispatcher():
    import numba

    inner = []

    def compile_anew(x):
        inner[:] = [numba.njit(lambda y: y.sum())]
        return float(inner[0](x))

    def call(x):
        with numba.objmode(s="float64"):
            s = compile_anew(x)
        return s + 0.0

    return call


NEW_JIT = replace(sincos.KERNEL, name="new_jit", implementations={"jax/eager": new_jit, "jax/jit": staged_new_jit})
STATIC_COUNTER = replace(sincos.KERNEL, name="static_counter", implementations={"jax": static_counter})
GROWING = replace(sincos.KERNEL, name="growing", implementations={"jax": growing})
WEAK_STATE = replace(sincos.KERNEL, name="weak_state", implementations={"jax/jit": weak_state})
NEW_DISPATCHER = replace(
    total.KERNEL, name="new_dispatcher", dtypes=("float64",), implementations={"numba": new_dispatcher}
)
HONEST_NEW_JIT = replace(sincos.KERNEL, name="honest_new_jit", implementations={"jax/jit": new_jit})
"""The harness's own jit takes in the one that is made anew: it is compiled once."""
