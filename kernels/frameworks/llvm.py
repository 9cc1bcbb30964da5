"""What the text of an LLVM function tells of its work: which arguments it reads, and how much a straight one does."""

from __future__ import annotations

import re

_ENTRY = re.compile(r"^define [^\n]*@\"?(?!_ZN7cpython|cfunc\.)_ZN[^\n]*\n.*?^}", re.MULTILINE | re.DOTALL)
"""A function that Numba compiled, and not one of those that unpack its arguments for the interpreter or for C."""

_ARITHMETIC = re.compile(
    r"= (?:\w+ )*?(?:f?add|f?sub|f?mul|fdiv|[su]div|f?neg|[fsu]?rem|(?:tail )?call [^@\n]*@llvm\.\w+)\b"
)

_WIDTH = re.compile(r"<(\d+) x ")


def entry(text: str) -> str | None:
    """Find the function itself in a module's text.

    Args:
        text: as Numba's ``inspect_llvm`` gives it.

    Returns:
        The function's text; None where it is not found.
    """
    found = _ENTRY.search(text)
    return found.group() if found else None


def arguments_read(function: str) -> int:
    """Count the arguments that a function reads any part of.

    Args:
        function: its text; ``%arg.x.4`` is a part of x.

    Returns:
        The number of arguments that its body names.
    """
    head, _, body = function.partition("\n")
    names = set(re.findall(r"%arg\.([A-Za-z_]\w*)", head))
    return sum(bool(re.search(rf"%arg\.{name}\b", body)) for name in names)


def operations(function: str) -> float | None:
    """Count the arithmetic operations of a function that neither loops nor calls.

    Args:
        function: its text.

    Returns:
        The count, a vector's elements each, both sides of every branch; None where it loops or calls another function.
    """
    _, _, body = function.partition("\n")
    if re.search(r"call [^@\n]*@(?!llvm\.)", body):
        return None
    seen: set[str] = set()
    count = 0
    for line in body.splitlines():
        label = re.match(r"([\w.$-]+|\"[^\"]+\"):", line)
        if label:
            seen.add(label.group(1))
        if any(target in seen for target in re.findall(r"label %([\w.$-]+|\"[^\"]+\")", line)):
            return None
        if _ARITHMETIC.search(line):
            width = _WIDTH.search(line)
            count += int(width.group(1)) if width else 1
    return float(count)
