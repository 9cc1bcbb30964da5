"""NumPy: eager, on the host, complete when it returns."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np

from kernels.case import Case
from kernels.frameworks.framework import Framework, Program
from kernels.phase import Phase
from kernels.spec import Kernel


class NumPy(Framework):
    """NumPy on the host."""

    NAME = "numpy"
    MODES: ClassVar = {"eager": (Phase.STARTUP, Phase.FIRST_CALL, Phase.STEADY)}
    MODULE = "numpy"
    DISTRIBUTIONS = ("numpy",)
    INSTALL = "pip install numpy"
    PRELOAD = ("numpy", "numpy.random")
    ARRAY = True

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Bind the body to NumPy, or take the kernel's own form."""
        build = kernel.builder(self.NAME, case.mode)
        return Program(build() if build else functools.partial(_required(kernel), np))


def _required(kernel: Kernel) -> Any:
    if kernel.array is None:
        raise LookupError(f"{kernel.name} has no body over the array namespace")
    return kernel.array


ADAPTER = NumPy
