"""A starting file for a kernel of a user's own: the template, under a name."""

from __future__ import annotations

import builtins
import keyword
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from kernels import template
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks
from kernels.reference import shown

_PLACEHOLDER = template.KERNEL.name


def write(name: str, to: Path) -> Path:
    """Write a starting file.

    Args:
        name: of the kernel.
        to: the folder for ``<name>.py``, or the file, whose name ends in ``.py``.

    Returns:
        The file.

    Raises:
        UsageError: the name cannot be had, the folder is not there, or the file is.
    """
    _refuse(name)
    file = to if to.suffix == ".py" else to / f"{name}.py"
    text = Path(template.__file__).read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
    try:
        # Exclusive: nobody's file is overwritten, not even one made in this moment.
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise UsageError(f"{file}: is there already; take another name, or remove it") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror}); name a folder that is there: --to .") from None
    return file


def reference(file: Path) -> str:
    """Write how a file is named as a kernel.

    Args:
        file: the file.

    Returns:
        What follows ``--kernel``.
    """
    path = shown(file.resolve())
    return path if "/" in path else f"./{path}"


def _refuse(name: str) -> None:
    if not name.isidentifier() or not name.islower() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(f"kernel name {name!r}: use a lower-case identifier such as jacobi2d")
    if name in suite():
        raise UsageError(f"kernel name {name!r}: the suite has one of that name; take another")
    # A file of that name would hide the module from whatever else is run in its folder.
    if name in sys.stdlib_module_names or name in _imported() or _installed(name):
        raise UsageError(f"kernel name {name!r}: a module that programs import is called so; take another")
    # The file defines a function of that name.
    if name != _PLACEHOLDER and (name in vars(template) or hasattr(builtins, name)):
        raise UsageError(f"kernel name {name!r}: the starting file uses that name itself; take another")


def _imported() -> set[str]:
    """Name this project's packages and what they import, installed or not."""
    adapters = frameworks().values()
    distributions = {name.replace("-", "_") for adapter in adapters for name in adapter.DISTRIBUTIONS}
    return {"kernels", "flows", "prefect"} | distributions | {adapter.MODULE for adapter in adapters}


def _installed(name: str) -> bool:
    """Look for a module outside the working directory: what stands in it is the user's own."""
    here = Path.cwd()
    return PathFinder.find_spec(name, [entry for entry in sys.path if Path(entry).resolve() != here]) is not None
