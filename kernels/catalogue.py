"""The suite as a page: every kernel with its formula, sizes, work and frameworks, taken from the kernels themselves.

``python -m kernels.catalogue`` prints it; ``make docs`` writes it to docs/suite.md.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

from kernels.discovery import suite
from kernels.frameworks import frameworks
from kernels.spec import Kernel, itemsize

_HEAD = """# The suite

Written by `make docs` from the files in `kernels/suite`; a test fails when it is stale.

Work is the least that any implementation must do, per call, in the kernel's first dtype. A framework stands under `one
body` where it runs the kernel's body over the array namespace, and under `own form` where the kernel is written
for it. A derivative is of the sum of the kernel's outputs, by the inputs that are named.
"""


def page(kernels: Mapping[str, Kernel]) -> str:
    """Write the page.

    Args:
        kernels: name to kernel.

    Returns:
        Markdown.
    """
    rows = [f"| [{name}](#{name}) | {_cell(kernel.summary)} | {_dtypes(kernel)} |" for name, kernel in kernels.items()]
    table = "\n".join(["| kernel | computes | dtypes |", "|---|---|---|", *rows])
    return "\n".join([_HEAD, f"{len(kernels)} kernels.\n", table, *map(_section, kernels.values())]) + "\n"


def _section(kernel: Kernel) -> str:
    lines = [f"\n## {kernel.name}\n", f"`{kernel.summary}`\n", _work(kernel), ""]
    lines += ["| size | | operations | bytes |", "|---|---|---:|---:|"]
    for label, dims in kernel.sizes.items():
        work = kernel.work(itemsize(kernel.dtypes[0]), **dims)
        shape = ", ".join(f"{name}={value}" for name, value in dims.items())
        lines.append(f"| {label} | {shape} | {_quantity(work.operations)} | {_quantity(work.nbytes)} |")
    lines += ["", f"- frameworks: {_frameworks(kernel)}"]
    tolerances = (f"{dtype} {t.absolute:g} + {t.relative:g}·\\|ref\\|" for dtype, t in kernel.tolerance.items())
    lines.append(f"- tolerance: {'; '.join(tolerances)}")
    lines.append(f"- derivatives: {_derivatives(kernel)}")
    return "\n".join(lines)


def _work(kernel: Kernel) -> str:
    return " ".join((inspect.getdoc(kernel.work) or "").split())


def _frameworks(kernel: Kernel) -> str:
    own: dict[str, list[str]] = {}
    for key in kernel.implementations:
        name, _, mode = key.partition("/")
        own.setdefault(name, []).extend([mode] if mode else [])
    # A form of one mode leaves the others of its framework to the body.
    shared = [name for name, adapter in frameworks().items() if adapter.ARRAY and kernel.array and own.get(name) != []]
    shared = [name for name in shared if set(own.get(name, ())) != set(frameworks()[name].MODES)]
    forms = ", ".join(f"{name} ({', '.join(modes)})" if modes else name for name, modes in sorted(own.items()))
    parts = [("one body", ", ".join(shared)), ("own form", forms)]
    return "; ".join(f"{what}: {names}" for what, names in parts if names)


def _derivatives(kernel: Kernel) -> str:
    if not kernel.differentiable:
        return "none"
    names = _inputs(kernel)
    by = (names[i] if i < len(names) else f"input {i}" for i in kernel.differentiable)
    orders = "1" if kernel.linear else "1 and 2"
    return f"{orders}, by {', '.join(by)}"


def _inputs(kernel: Kernel) -> list[str]:
    """Name the inputs as the body does, whose first parameter is the namespace."""
    if kernel.array is not None:
        return list(inspect.signature(kernel.array).parameters)[1:]
    return list(inspect.signature(kernel.reference).parameters) if kernel.reference else []


def _dtypes(kernel: Kernel) -> str:
    return " ".join(kernel.dtypes)


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _quantity(value: int) -> str:
    """Write a count with three digits and its power of a thousand, as in 1.28 M."""
    scaled, suffix = float(value), ""
    for larger in (" k", " M", " G", " T"):
        if scaled < 999.5:
            break
        scaled, suffix = scaled / 1000, larger
    return f"{scaled:.3g}{suffix}"


if __name__ == "__main__":
    sys.stdout.write(page(suite()))
