"""Kernels whose second call differs from the first; and honest ones that say what they consume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.spec import Kernel, Tolerance, Work
from kernels.suite import total

EXACT = {"float32": Tolerance(1e-6, 1e-6), "float64": Tolerance(1e-12, 1e-12)}


def _kernel(name, donates=(), **implementations):
    return Kernel(
        name=name,
        summary="2 x",
        sizes={"S": {"n": 256}},
        dtypes=("float32", "float64"),
        inputs=lambda rng, dtype, n: (rng.uniform(1, 2, n).astype(dtype),),
        work=lambda itemsize, n: Work(n, 2 * itemsize * n),
        tolerance=EXACT,
        array=lambda xp, x: 2 * x,
        implementations={framework.replace("_", "/"): build for framework, build in implementations.items()},
        donates=donates,
    )


def doubled_in_place():
    def call(x):
        x *= 2
        return x

    return call


def doubled_in_loop():
    def call(x):
        for i in range(x.size):
            x[i] = 2 * x[i]
        return x

    return call


def donated():
    import jax

    return jax.jit(lambda x: 2 * x, donate_argnums=0)


IN_PLACE = _kernel("in_place", numpy=doubled_in_place, numba=doubled_in_loop, jax_jit=donated)
DECLARED = _kernel("declared", donates=(0,), numpy=doubled_in_place, numba=doubled_in_loop, jax_jit=donated)
"""The same, honestly declared."""
UNDECORATED = _kernel("undecorated", donates=(0,))
"""Honest: the harness's own jit donates what the kernel declares."""


def sorted_in_place():
    def call(x):
        x.sort()
        return x[:1] + 0

    return call


SORTS = replace(_kernel("sorts", numpy=sorted_in_place, numba=sorted_in_place), array=lambda xp, x: xp.sort(x)[:1])
"""The answer stays right, but every call after the first sorts what is sorted."""


def accumulates_numpy():
    calls = [0]

    def call(x):
        calls[0] += 1
        return 2 * x if calls[0] < 10 else calls[0] * x

    return call


def accumulates_jax():
    calls = [0]

    def call(x):
        calls[0] += 1
        return x * (2 + calls[0] // 3)

    return call


ACCUMULATES = _kernel("accumulates", numpy=accumulates_numpy, jax_eager=accumulates_jax)


def growing_list():
    kept = []

    def call(x):
        kept.append(1e-3)
        return sum(x) + sum(kept[3:])

    return call


GROWING_LIST = replace(total.KERNEL, name="growing_list", implementations={"python": growing_list})


def scratch():
    """Use an array of its own between calls, for nothing but room."""
    room = np.empty(256)

    def call(x):
        np.multiply(x, 2, out=room)
        return room.astype(x.dtype)

    return call


SCRATCH = _kernel("scratch", numpy=scratch)
