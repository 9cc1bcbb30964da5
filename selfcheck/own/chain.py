"""chain: ``state = tanh(state * x + x)`` over and over: the work is a loop count, so a tenth more of it is exact.

Each framework has kernels of its own, of about 130 us, and each kernel one size: what is measured is a process that
compiles one program.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def chain(x: Any, steps: int) -> Any:
    """Return the last state, from zero: x (width,)."""
    state = np.zeros_like(x)
    for _ in range(steps):
        state = np.tanh(state * x + x)
    return state


def jax(steps: int) -> Function:
    """Write it as a compiled loop."""
    from jax import lax
    from jax import numpy as jnp

    def chain_loop(x: Any) -> Any:
        return lax.fori_loop(0, steps, lambda _, state: jnp.tanh(state * x + x), jnp.zeros_like(x))

    return chain_loop


def numpy(steps: int) -> Function:
    """Write it as the interpreter's loop."""
    return lambda x: chain(x, steps)


def kernel(name: str, framework: str, steps: int, width: int) -> Kernel:
    """Make the kernel of a framework and a loop count."""
    build = {"jax": jax, "numpy": numpy}[framework]
    return Kernel(
        name=name,
        summary=f"state = tanh(state * x + x), {steps} times",
        sizes={"S": {"width": width}},
        dtypes=("float32",),
        # |x| < 0.9 keeps the map a contraction, so that rounding does not add up over the steps.
        inputs=lambda rng, dtype, width: (rng.uniform(-0.9, 0.9, width).astype(dtype),),
        work=lambda itemsize, width: Work(3 * steps * width, 2 * itemsize * width),
        tolerance={"float32": Tolerance(1e-4, 1e-5)},
        reference=lambda x: chain(x, steps),
        implementations={framework: functools.partial(build, steps)},
    )


JAX = kernel("chain_jax", "jax", 500, 512)
NUMPY = kernel("chain_numpy", "numpy", 100, 128)
