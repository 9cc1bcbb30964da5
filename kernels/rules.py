"""The rules that the harness relies on: what a kernel is held against before anything is measured."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernels.errors import UnavailableError, UsageError, unknown
from kernels.frameworks import frameworks, modes
from kernels.spec import Kernel, Tolerance, Work, dtype_named, is_floating

Tell = Callable[[str], None]
"""Is told of each step before it is taken."""

ITEMSIZES = (1, 2, 4, 8, 16)
"""Bytes of one number, of every dtype that there is."""


class KernelError(Exception):
    """A kernel breaks a rule; the message says which, and how to mend it.

    Attributes:
        keyword: the field of Kernel that is at fault.
        key: the key in it, where it is a dict.
        function: the function at fault, where it is one.
    """

    def __init__(self, message: str, keyword: str, key: str | None = None, function: object = None) -> None:
        super().__init__(message)
        self.keyword, self.key, self.function = keyword, key, function


def check(kernel: Kernel, tell: Tell = lambda stage: None) -> None:
    """Hold a kernel against every rule; functions are called at its smallest size.

    Args:
        kernel: the kernel.
        tell: is told of each step.

    Raises:
        KernelError: a rule is broken, or a function of the kernel raised; that exception is the cause then.
    """
    _implementations(kernel)
    _dims(kernel)
    _tolerances(kernel)
    tell("its work was counted")
    _work(kernel)
    drawn = None
    for dtype in kernel.dtypes:
        tell(f"its inputs were drawn in {dtype}")
        try:
            drawn = _inputs(kernel, dtype) or drawn
        except UnavailableError:
            # Of ml_dtypes, which is not installed; the dtype's cases will say so.
            continue
    if drawn is not None:
        tell("its reference was computed")
        _positions(kernel, drawn)
        _reference(kernel, drawn)


def _implementations(kernel: Kernel) -> None:
    known = [*frameworks(), *modes()]
    for key, builder in kernel.implementations.items():
        if key not in known:
            raise KernelError(str(unknown("framework", key, known)), "implementations", key)
        if not callable(builder):
            raise KernelError(f"{key}: {builder!r} is no function that builds one", "implementations", key)


def _dims(kernel: Kernel) -> None:
    for size, dims in kernel.sizes.items():
        if not re.fullmatch(r"\w+", str(size)):
            raise KernelError(f"size {size!r}: use letters and digits, such as S", "sizes", size)
        if not isinstance(dims, Mapping) or not all(isinstance(n, int) and n > 0 for n in dims.values()):
            raise KernelError(f'size {size}: give dimensions that are at least 1, such as {{"n": 8}}', "sizes", size)
        for field, first, function in (("inputs", "rng, dtype", kernel.inputs), ("work", "itemsize", kernel.work)):
            if not callable(function):
                raise KernelError(f"{field} = {function!r} is no function; give {field}({first}, **dims)", field)
            try:
                inspect.signature(function).bind(*first.split(", "), **dims)
            except TypeError as error:
                names = ", ".join(dims)
                message = (
                    f"{field} does not take the dimensions of size {size}, {error}: define {field}({first}, {names})"
                )
                raise KernelError(message, field, function=function) from None


def _tolerances(kernel: Kernel) -> None:
    for dtype, tolerance in kernel.tolerance.items():
        sound = isinstance(tolerance, Tolerance) and all(
            isinstance(part, int | float) and 0 <= part < math.inf for part in (tolerance.relative, tolerance.absolute)
        )
        if not sound:
            message = (
                f"tolerance of {dtype} is {tolerance!r}: give Tolerance(relative, absolute), finite and at least 0"
            )
            raise KernelError(message, "tolerance", dtype)


def _work(kernel: Kernel) -> None:
    for size, dims in kernel.sizes.items():
        for itemsize in ITEMSIZES:
            try:
                work: object = kernel.work(itemsize, **dims)
            except UsageError as error:
                raise KernelError(f"at size {size}: {error}", "work", function=kernel.work) from error
            except (Exception, SystemExit) as error:
                raise KernelError(f"work raised at size {size}", "work", function=kernel.work) from error
            message = None
            if not isinstance(work, Work):
                message = f"work gives {_kind(work)}: give Work(operations, nbytes)"
            elif not all(isinstance(part, int) for part in (work.operations, work.nbytes)):
                message = f"work gives {work} at size {size}: give whole numbers, such as n // 2"
            if message:
                raise KernelError(message, "work", function=kernel.work)


def _inputs(kernel: Kernel, name: str) -> tuple[np.ndarray, ...]:
    def fault(message: str) -> KernelError:
        return KernelError(f"inputs in {name} {message}", "inputs", function=kernel.inputs)

    size, dims = next(iter(kernel.sizes.items()))
    try:
        dtype = dtype_named(name)
    except (UsageError, TypeError) as error:
        raise KernelError(str(error), "dtypes") from None
    try:
        first, again = (_drawn(kernel, dtype, dims) for _ in range(2))
    except (Exception, SystemExit) as error:
        raise fault(f"raised at size {size}") from error
    if not isinstance(first, tuple):
        raise fault(f"gives {_kind(first)}: give a tuple of NumPy arrays, (x,) for one")
    for number, x in enumerate(first):
        if not isinstance(x, np.ndarray):
            raise fault(f"gives {_kind(x)} at position {number}: give NumPy arrays, np.asarray(...) for a number")
        if is_floating(x.dtype) and is_floating(dtype) and x.dtype != dtype:
            raise fault(f"gives {x.dtype} at position {number}: end with .astype(dtype)")
    if not any(x.dtype == dtype for x in first):
        raise fault(f"gives no array of {name} but ({', '.join(str(x.dtype) for x in first)}): end with .astype(dtype)")
    if any(x.tobytes() != y.tobytes() for x, y in zip(first, again, strict=True)):
        raise fault("gives other numbers for the same seed: draw from rng alone")
    return first


def _drawn(kernel: Kernel, dtype: np.dtype[Any], dims: Mapping[str, int]) -> Any:
    return kernel.inputs(np.random.default_rng(0), dtype, **dims)


def _positions(kernel: Kernel, inputs: tuple[np.ndarray, ...]) -> None:
    for field in ("donates", "differentiable"):
        for position in getattr(kernel, field):
            if not 0 <= position < len(inputs):
                raise KernelError(f"{field} names position {position} of {len(inputs)} inputs: count from 0", field)
            if field == "differentiable" and not is_floating(inputs[position].dtype):
                message = f"differentiable names position {position}, whose dtype is {inputs[position].dtype}"
                raise KernelError(f"{message}: name floating inputs", field)


def _reference(kernel: Kernel, inputs: tuple[np.ndarray, ...]) -> None:
    function = kernel.reference or kernel.array
    field = "reference" if kernel.reference else "array"
    try:
        with np.errstate(all="ignore"):
            outputs = kernel.expected(inputs)
    except (Exception, SystemExit) as error:
        raise KernelError(f"{field} raised in NumPy, on float64", field, function=function) from error
    if not outputs or any(x.dtype.kind not in "biufcV" for x in outputs):
        kinds = ", ".join(str(x.dtype) for x in outputs) or "nothing"
        raise KernelError(f"{field} gives {kinds}, which cannot be compared: give arrays", field, function=function)


def _kind(value: object) -> str:
    return type(value).__name__
