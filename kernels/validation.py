"""Load and check kernels of a user's own, in a process that may hang, crash, or import a framework.

Run as ``python -m kernels.validation SOURCE [NAME]``. Standard output: JSON lines, ``{"stage": words}`` before each
step, and last either ``{"error": line}`` or what the kernels are, ``{"file": …, "sha256": …, "kernels": […]}``.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from kernels.errors import UsageError, unknown
from kernels.loading import Loaded, load
from kernels.places import Places, line_in, place
from kernels.rules import ITEMSIZES, KernelError, Tell, check
from kernels.spec import Kernel


def located(loaded: Loaded, kernel: Kernel, fault: KernelError) -> str:
    """Write a fault as one line with file and line.

    Args:
        loaded: where the kernel stands.
        kernel: the kernel.
        fault: the fault.

    Returns:
        The line.
    """
    cause, words = fault.__cause__, str(fault)
    line = line_in(loaded.file, cause) if cause else 0
    code = getattr(fault.function, "__code__", None)
    if not line and code is not None and Path(code.co_filename) == loaded.file:
        line = code.co_firstlineno
    line = line or Places(loaded.file).line(loaded.attributes[kernel.name], fault.keyword, fault.key)
    if cause and not isinstance(cause, UsageError):
        text = " ".join(str(cause).split())
        words += f", {type(cause).__name__}: {text}; it must serve every size and dtype that the kernel names"
    return f"{place(loaded.file, line)}: kernel {kernel.name}: {words}"


def describe(kernel: Kernel) -> dict[str, Any]:
    """Say as plain values what a kernel is, without what it computes.

    Args:
        kernel: a kernel that has been checked.

    Returns:
        What ``kernels.own`` makes a description of.
    """
    work = [
        [itemsize, dict(dims), (counted := kernel.work(itemsize, **dims)).operations, counted.nbytes]
        for dims in kernel.sizes.values()
        for itemsize in ITEMSIZES
    ]
    return {
        "name": kernel.name,
        "summary": kernel.summary,
        "sizes": {size: dict(dims) for size, dims in kernel.sizes.items()},
        "dtypes": list(kernel.dtypes),
        "work": work,
        "tolerance": {dtype: [t.relative, t.absolute] for dtype, t in kernel.tolerance.items()},
        "array": kernel.array is not None,
        "implementations": list(kernel.implementations),
        "reference": kernel.reference is not None,
        "donates": list(kernel.donates),
        "differentiable": list(kernel.differentiable),
        "linear": kernel.linear,
    }


def examine(source: str, name: str | None, tell: Tell = lambda stage: None) -> dict[str, Any]:
    """Load a source, check its kernels, and say what they are.

    Args:
        source: as ``kernels.loading.load`` takes it.
        name: of the one kernel that is meant, or its attribute; None for all.
        tell: is told of each step.

    Returns:
        Plain values: the file, its sha256, and its kernels, each with its place.

    Raises:
        UsageError: it does not load, or a kernel breaks a rule; one line with file and line.
    """
    tell("it was loaded")
    loaded = load(source)
    chosen = list(loaded.kernels) if name is None else [_chosen(loaded, name)]
    lines, described = Places(loaded.file), []
    for kernel in map(loaded.kernels.__getitem__, chosen):
        try:
            check(kernel, tell)
        except KernelError as fault:
            raise UsageError(located(loaded, kernel, fault)) from fault
        where = place(loaded.file, lines.line(loaded.attributes[kernel.name]))
        described.append({**describe(kernel), "place": where})
    return {"file": str(loaded.file), "sha256": loaded.sha256, "kernels": described}


def main(source: str, name: str | None) -> None:
    """Examine a source in this process, which then ends; an error of the user's is said as JSON too.

    Args:
        source: as ``kernels.loading.load`` takes it.
        name: of the one kernel that is meant, or its attribute; None for all.
    """
    # What the file prints must not come between the lines.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()

    def say(value: object) -> None:
        channel.write(json.dumps(value) + "\n")

    try:
        say(examine(source, name, lambda stage: say({"stage": stage})))
    except UsageError as error:
        say({"error": str(error)})
    except Exception as error:
        # No rule foresaw it: what is known is where it came from.
        traceback.print_exc()
        file = Path(source)
        where = place(file, line_in(file, error)) if "/" in source else f"--kernel {source}"
        text = " ".join(str(error).split())
        say({"error": f"{where}: {type(error).__name__}: {text}; it came up while the file was checked"})
    # Threads that the file started are nobody's to wait for.
    channel.flush()
    os._exit(0)


def _chosen(loaded: Loaded, name: str) -> str:
    attributes = {attribute: kernel for kernel, attribute in loaded.attributes.items()}
    if name in loaded.kernels:
        return name
    if name in attributes:
        return attributes[name]
    raise unknown("kernel", name, [*loaded.kernels, *attributes], place(loaded.file, 0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
