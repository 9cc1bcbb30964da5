"""Where in a user's file something stands: the file and line of a message."""

from __future__ import annotations

import ast
from pathlib import Path

from kernels.reference import shown


def place(file: Path, line: int) -> str:
    """Write file and line as compilers do.

    Args:
        file: absolute path.
        line: from 1; 0 where it is not known.

    Returns:
        Such as ``mine.py:12``.
    """
    return f"{shown(file)}:{line}" if line else shown(file)


def line_in(file: Path, error: BaseException) -> int:
    """Find the line of a file that an exception came through, the innermost.

    Args:
        file: absolute path.
        error: the exception.

    Returns:
        The line; 0 where it did not come through the file.
    """
    line, frame = 0, error.__traceback__
    while frame is not None:
        if Path(frame.tb_frame.f_code.co_filename) == file:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


class Places:
    """The lines of a file on which its module-level values stand."""

    def __init__(self, file: Path) -> None:
        """Read them.

        Args:
            file: a file that has been loaded.
        """
        self._values: dict[str, ast.expr] = {}
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self._values[target.id] = node.value

    def line(self, attribute: str, keyword: str | None = None, key: str | None = None) -> int:
        """Find the line of a value, of a keyword in the call that makes it, or of a key in that keyword's dict.

        Args:
            attribute: name at module level.
            keyword: such as ``implementations``.
            key: such as ``jax``.

        Returns:
            The line of the most precise of the three that stands there in plain words; 0 where none does.
        """
        value = self._values.get(attribute)
        if value is None:
            return 0
        line = value.lineno
        given = {k.arg: k.value for k in value.keywords} if isinstance(value, ast.Call) else {}
        inner = given.get(keyword)
        if inner is not None:
            line = inner.lineno
        if isinstance(inner, ast.Name):
            inner = self._values.get(inner.id)
        if isinstance(inner, ast.Dict):
            keys = [k for k in inner.keys if isinstance(k, ast.Constant) and k.value == key]
            line = keys[0].lineno if keys else line
        return line
