"""What a user names as a kernel: one of the suite by name, or one of their own by file or module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError


@dataclass(frozen=True, slots=True)
class Reference:
    """Where kernels of a user's own stand.

    Attributes:
        text: as it was typed.
        source: absolute path of a file, or a module's dotted name; only a path has a slash in it.
        name: the one kernel that is meant, by its name or its attribute; None takes all.
    """

    text: str
    source: str
    name: str | None = None

    @classmethod
    def of(cls, text: str) -> Reference:
        """Read ``path/to/file.py``, ``path/to/file.py:name`` or ``package.module:name``.

        Args:
            text: as it was typed.

        Returns:
            The reference.

        Raises:
            UsageError: there is no such file, or it is not one of the three forms.
        """
        path, found, name = text.rpartition(".py:")
        path = f"{path}.py" if found else text
        if _is_path(path):
            return cls(text, str(_file(path)), name if found else None)
        module, _, name = text.partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise UsageError(f"--kernel {text}: give package.module:name, or the path of a file, such as ./mine.py")
        return cls(text, module, name)


def is_own(text: str) -> bool:
    """Tell whether what was typed names a kernel of the user's own.

    Args:
        text: as it was typed.

    Returns:
        True for a path, which ends in ``.py`` or holds a slash, and for ``module:name``.
    """
    return _is_path(text) or ":" in text


def shown(file: Path) -> str:
    """Write a file's path for a message.

    Args:
        file: absolute path.

    Returns:
        The path from the working directory where the file lies below it, else the absolute one.
    """
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def _is_path(text: str) -> bool:
    return text.endswith(".py") or "/" in text


def _file(path: str) -> Path:
    file = Path(path).resolve()
    if file.is_dir():
        raise UsageError(f"--kernel {path}: is a folder; give the path of one Python file in it")
    if not file.exists():
        raise UsageError(f"--kernel {path}: no such file; jitmatrix new-kernel NAME writes one to start from")
    if file.suffix != ".py":
        raise UsageError(f"--kernel {path}: no Python file; give one whose name ends in .py")
    return file
