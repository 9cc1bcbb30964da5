"""Load kernels of a user's own into this process, from a file or from a module that can be imported."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernels.errors import UsageError
from kernels.places import Places, line_in, place
from kernels.reference import shown
from kernels.spec import Kernel


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file gave.

    Attributes:
        file: absolute path.
        sha256: of its bytes, in hexadecimal digits.
        kernels: kernel name to kernel.
        attributes: kernel name to the module's attribute that holds it.
    """

    file: Path
    sha256: str
    kernels: Mapping[str, Kernel]
    attributes: Mapping[str, str]


@functools.cache
def load(source: str) -> Loaded:
    """Load the kernels of a source.

    A file may import its neighbours, as ``import helpers`` or as ``from . import helpers``; a module is looked for in
    the working directory too. Both come last on the module path: a neighbour ``random.py`` hides nobody else's.

    Args:
        source: absolute path of a file, or a module's dotted name.

    Returns:
        What it gave.

    Raises:
        UsageError: it does not load, or holds no kernel; the message is one line with file and line.
    """
    if "/" in source:
        file = Path(source)
        module = _executed(file)
    else:
        module = _imported(source)
        file = Path(str(module.__file__)).resolve()
    kernels: dict[str, Kernel] = {}
    attributes: dict[str, str] = {}
    suite = _of_suite()
    for attribute, value in vars(module).items():
        if not isinstance(value, Kernel) or id(value) in suite:
            continue
        if value.name in kernels and kernels[value.name] is not value:
            where = place(file, Places(file).line(attribute))
            first = attributes[value.name]
            raise UsageError(f"{where}: two kernels are named {value.name}, {first} and {attribute}; rename one")
        kernels.setdefault(value.name, value)
        attributes.setdefault(value.name, attribute)
    if not kernels:
        raise UsageError(f"{place(file, 1)}: no Kernel in it; define one at module level, KERNEL = Kernel(...)")
    return Loaded(file, digest(file), kernels, attributes)


def check_unchanged(source: str, sha256: str) -> None:
    """Refuse a source that is no longer the one that a run was planned with: its rounds would be of two kernels.

    Args:
        source: as ``load`` takes it.
        sha256: of the file, when the run was planned.

    Raises:
        UsageError: it is another now.
    """
    loaded = load(source)
    if loaded.sha256 != sha256:
        raise UsageError(f"{shown(loaded.file)}: was changed after the run had begun; start the run again")


def digest(file: Path) -> str:
    """Hash a file.

    Args:
        file: the file.

    Returns:
        The sha256 of its bytes, in hexadecimal digits.
    """
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _of_suite() -> set[int]:
    """Name the suite's kernels by identity: a file that varies one imports it, and does not define it."""
    modules = [module for name, module in sys.modules.items() if name.startswith("kernels.suite.")]
    return {id(value) for module in modules for value in vars(module).values() if isinstance(value, Kernel)}


def _executed(file: Path) -> ModuleType:
    """Execute a file's own bytes: bytecode that was kept of an edit before may be as old as the same second."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    for entry in dict.fromkeys((str(file.parent), str(folder))):
        if entry not in sys.path:
            sys.path.append(entry)
    # A package of no other name holds the file, so that neither it nor its package is taken for one that is installed.
    root = types.ModuleType(f"jitmatrix_own_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}")
    root.__path__ = [str(folder)]
    sys.modules[root.__name__] = root
    parents = [root.__name__, *file.parent.relative_to(folder).parts]
    name = ".".join([*parents, file.stem])
    try:
        importlib.import_module(".".join(parents))
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise UsageError(_words(file, error)) from error
    return module


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"--kernel {name}: no module named {error.name} here; stand in the folder that holds it, name that "
                "folder in PYTHONPATH, or give the path of the file"
            ) from error
        raise UsageError(f"--kernel {name}: its package does not load: {_plain(error)}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"--kernel {name}: its package does not load: {_plain(error)}") from error
    if not spec.origin or not spec.origin.endswith(".py"):
        raise UsageError(f"--kernel {name}: has no source file in Python; name the module that defines the Kernel")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise UsageError(_words(Path(spec.origin).resolve(), error)) from error


def _words(file: Path, error: BaseException) -> str:
    """Say in one line where a file stopped loading, why, and what mends it."""
    if isinstance(error, SyntaxError):
        broken = Path(error.filename).resolve() if error.filename else file
        return f"{place(broken, error.lineno or 0)}: {type(error).__name__}: {error.msg}; mend that line"
    where = place(file, line_in(file, error))
    if isinstance(error, UsageError):
        return f"{where}: {_one_line(error)}"
    return f"{where}: {_plain(error)}{_hint(file, error)}"


def _hint(file: Path, error: BaseException) -> str:
    if isinstance(error, ImportError) and error.name:
        top = error.name.partition(".")[0]
        if (file.parent / f"{top}.py").is_file() and not error.name.startswith("jitmatrix_own_"):
            return f"; Python or a package has a {top} too, which comes first: rename {top}.py beside it"
        if isinstance(error, ModuleNotFoundError):
            return "; install it, or put it beside the file"
    if isinstance(error, TypeError) and "Kernel.__init__()" in str(error):
        return "; jitmatrix new-kernel NAME writes a file that has every field"
    return ""


def _plain(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
