"""Plain Python: lists and numbers, with and without a result cache."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np

from kernels.case import Case
from kernels.frameworks.framework import Framework, Program
from kernels.phase import Phase
from kernels.spec import Kernel

_PHASES = (Phase.STARTUP, Phase.FIRST_CALL, Phase.STEADY)


class Python(Framework):
    """The interpreter itself; its float is float64, so nothing else is measured under another name."""

    NAME = "python"
    MODES: ClassVar = {"plain": _PHASES, "lru_cache": _PHASES}
    MODULE = "builtins"
    # The inputs are drawn by NumPy.
    PRELOAD = ("numpy", "numpy.random")
    DTYPES = ("float64",)

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Take the kernel's Python form, behind ``functools.lru_cache`` in the mode of that name."""
        build = kernel.builder(self.NAME, case.mode)
        if build is None:
            raise LookupError(f"{kernel.name} has no python implementation")
        return Program(functools.lru_cache(build()) if case.mode == "lru_cache" else build())

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Turn arrays into numbers and nested tuples of numbers: hashable, as a result cache needs them."""
        return tuple(_tuples(x.tolist()) for x in inputs)

    def touch(self, args: tuple[Any, ...]) -> None:
        """Walk every input once."""
        for x in args:
            hash(x)


def _tuples(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    # A row of a million numbers is no place for a call each.
    return tuple(map(_tuples, value)) if value and isinstance(value[0], list) else tuple(value)


ADAPTER = Python
