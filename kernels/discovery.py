"""Find kernels: every file of the suite, or one file of a user's own."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import kernels.suite
from kernels.errors import UsageError
from kernels.spec import Kernel


@functools.cache
def suite() -> Mapping[str, Kernel]:
    """Collect the kernels of ``kernels/suite``; a new file there needs no registration.

    Returns:
        Kernel name to kernel, in alphabetical order.
    """
    found: dict[str, Kernel] = {}
    for info in sorted(pkgutil.iter_modules(kernels.suite.__path__), key=lambda info: info.name):
        found.update(_kernels_of(importlib.import_module(f"kernels.suite.{info.name}")))
    return found


@functools.cache
def from_file(path: str) -> Mapping[str, Kernel]:
    """Load a file that defines kernels outside the suite.

    Args:
        path: the Python file.

    Returns:
        Kernel name to kernel.

    Raises:
        UsageError: the file is not there, does not load, or holds no kernel.
    """
    file = Path(path).resolve()
    spec = importlib.util.spec_from_file_location(f"jitmatrix_own_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{path}: no such Python file; give the path of a file that defines a Kernel")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except (Exception, SystemExit) as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line_in(file, error)
        words = " ".join(str(error).split())
        raise UsageError(f"{path}:{line}: {type(error).__name__}: {words}") from error
    found = _kernels_of(module)
    if not found:
        raise UsageError(f"{path}: no Kernel in it; define one at module level, KERNEL = Kernel(...)")
    return found


def find(name: str, source: str | None) -> Kernel:
    """Find a kernel by name.

    Args:
        name: the kernel's name.
        source: the user's file it stands in; None for the suite.

    Returns:
        The kernel.
    """
    return (from_file(source) if source else suite())[name]


def _kernels_of(module: ModuleType) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for value in vars(module).values():
        if isinstance(value, Kernel):
            if value.name in found and found[value.name] is not value:
                raise UsageError(f"{module.__file__}: two kernels are named {value.name}; rename one")
            found[value.name] = value
    return found


def _line_in(file: Path, error: BaseException) -> int:
    line, frame = 0, error.__traceback__
    while frame is not None:
        if Path(frame.tb_frame.f_code.co_filename) == file:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
