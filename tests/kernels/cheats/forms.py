"""One computation in the forms in which people hand it over: decorated or not, with caches of their own or not."""

from __future__ import annotations

from dataclasses import replace

from kernels.suite import dense, total


def decorated():
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda x, w, b: dense.dense(jnp, x, w, b))


def undecorated():
    import jax.numpy as jnp

    return lambda x, w, b: dense.dense(jnp, x, w, b)


def njit_cached():
    """Compile with a persistent cache of the kernel's own, beside its file or where the user's settings say."""
    import numba

    @numba.njit(cache=True)
    def add(s, v):
        return s + v

    @numba.njit(cache=True)
    def call(x):
        s = x[0]
        for i in range(1, len(x)):
            s = add(s, x[i])
        return s

    return call


def plain_loop():
    def call(x):
        s = x[0]
        for i in range(1, len(x)):
            s += x[i]
        return s

    return call


def of_torch():
    import torch

    def call(x):
        return torch.sum(x)

    return call


DECORATED = replace(dense.KERNEL, name="decorated", implementations={"jax": decorated})
UNDECORATED = replace(dense.KERNEL, name="undecorated", implementations={"jax": undecorated})
NJIT_CACHED = replace(total.KERNEL, name="njit_cached", implementations={"numba": njit_cached})
PLAIN_LOOP = replace(total.KERNEL, name="plain_loop", implementations={"numba": plain_loop})
OF_TORCH = replace(total.KERNEL, name="of_torch", implementations={"torch": of_torch})
