"""Kernels of the self-check alone; its cases name these files as their source."""

from __future__ import annotations

from pathlib import Path

from kernels.case import Case


def case(kernel: str, mode: str, size: str, file: str | None = None) -> Case:
    """Make a float32 case on the CPU.

    Args:
        kernel: the kernel's name.
        mode: such as ``jax/jit``.
        size: the size's label.
        file: the stem of a file of this folder; None for a kernel of the suite.

    Returns:
        The case.
    """
    framework, _, name = mode.partition("/")
    source = str(Path(__file__).with_name(f"{file}.py")) if file else None
    return Case(kernel, framework, name, size, "float32", source=source)


CHAINS = {"jax/jit": "chain_jax", "numpy/eager": "chain_numpy"}
"""Mode to its kernel of about 130 us in ``chain.py``."""


def chain(mode: str) -> Case:
    """Make a case of a kernel of about 130 us.

    Args:
        mode: of ``CHAINS``.

    Returns:
        The case.
    """
    return case(CHAINS[mode], mode, "S", "chain")
