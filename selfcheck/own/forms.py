"""forms: kernels of the suite, each compiled by a decorator and by a call: is one of the two slower?

``make findings`` measures them. Of each pair the body is the same, and so is the function's name, which is in the
compiled program's text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel
from kernels.suite import dense, sincos


def decorated(kernel: Kernel) -> Function:
    """Write it as ``@jax.jit`` over a definition."""
    import jax

    @jax.jit  # type: ignore[untyped-decorator]
    def computation(*inputs: Any) -> Any:
        return _body(kernel)(jax.numpy, *inputs)

    compiled: Function = computation
    return compiled


def function(kernel: Kernel) -> Function:
    """Write it as a plain definition, which the harness gives to ``jax.jit`` as a user would: ``jax.jit(function)``."""
    import jax

    def computation(*inputs: Any) -> Any:
        return _body(kernel)(jax.numpy, *inputs)

    return computation


def form(kernel: Kernel, name: str, build: Callable[[Kernel], Function]) -> Kernel:
    """Make the kernel of one form."""
    return replace(
        kernel,
        name=f"{kernel.name}_{name}",
        array=None,
        reference=functools.partial(_body(kernel), np),
        implementations={"jax": functools.partial(build, kernel)},
    )


def _body(kernel: Kernel) -> Function:
    assert kernel.array is not None
    return kernel.array


SINCOS_DECORATED = form(sincos.KERNEL, "decorated", decorated)
SINCOS_FUNCTION = form(sincos.KERNEL, "function", function)
DENSE_DECORATED = form(dense.KERNEL, "decorated", decorated)
DENSE_FUNCTION = form(dense.KERNEL, "function", function)
