"""Find kernels: every file of the suite, or those of a user's own."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

import kernels.suite
from kernels.errors import UsageError
from kernels.loading import load
from kernels.spec import Kernel

_described: dict[str, dict[str, Kernel]] = {}


@functools.cache
def suite() -> Mapping[str, Kernel]:
    """Collect the kernels of ``kernels/suite``; a new file there needs no registration.

    Returns:
        Kernel name to kernel, in alphabetical order.

    Raises:
        UsageError: two files define a kernel of one name.
    """
    found: dict[str, Kernel] = {}
    for info in sorted(pkgutil.iter_modules(kernels.suite.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"kernels.suite.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Kernel) and found.setdefault(value.name, value) is not value:
                raise UsageError(f"{module.__file__}: two kernels are named {value.name}; rename one")
    return dict(sorted(found.items()))


def describe(source: str, kernels: Mapping[str, Kernel]) -> None:
    """Let ``find`` give descriptions in this process: it plans what others compute, and never loads the source.

    Args:
        source: as in ``Case.source``.
        kernels: kernel name to a kernel that says what it is, and computes nothing.
    """
    _described.setdefault(source, {}).update(kernels)


def find(name: str, source: str | None) -> Kernel:
    """Find a kernel by name.

    Args:
        name: the kernel's name.
        source: absolute path or module's name of the user's own; None for the suite.

    Returns:
        The kernel, or its description where this process has one.
    """
    if source is None:
        return suite()[name]
    return (_described.get(source) or load(source).kernels)[name]
