"""What a kernel is: its sizes, dtypes, inputs, work, tolerance and implementations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernels.errors import UnavailableError, UsageError

Function = Callable[..., Any]
"""A computation on placed inputs."""

Builder = Callable[[], Function]
"""Imports what it needs and returns a new function, decorated already or not."""

Dims = Mapping[str, int]

BACKENDS = ("cpu", "gpu", "tpu")
"""Where arrays may live; the last part of a tolerance's key may be one of them."""


@dataclass(frozen=True, slots=True)
class Work:
    """The least that any implementation must do: what the guards and the roofline hold a timing against.

    Attributes:
        operations: arithmetic operations (a transcendental function counts as one); at least 1.
        nbytes: bytes read and written at least once, inputs and outputs; at least 1.
    """

    operations: int
    nbytes: int

    def __post_init__(self) -> None:
        if self.operations < 1 or self.nbytes < 1:
            raise UsageError(f"work must be at least 1 operation and 1 byte, got {self}: count inputs and outputs")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may lie from the float64 reference: ``|out - ref| <= absolute + relative * |ref|``."""

    relative: float
    absolute: float


_POSITIONS = ("donates", "differentiable")

_FORMS = (
    ("summary", str, "one line of text"),
    ("sizes", Mapping, 'a dict such as {"S": {"n": 8}}'),
    ("dtypes", tuple | list, 'a tuple of names, ("float32",) for one'),
    ("tolerance", Mapping, 'a dict such as {"float32": Tolerance(1e-5, 0.0)}'),
    ("implementations", Mapping, 'a dict such as {"jax": build}'),
    *((name, tuple | list, "a tuple of positions, (0,) for the first input") for name in _POSITIONS),
    ("linear", bool, "True or False"),
)
"""Field of a kernel to its type, and to what is to be given for it."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A named computation.

    Attributes:
        name: lower-case identifier, unique.
        summary: one line with the formula.
        sizes: size label to dimensions, smallest first.
        dtypes: dtype names that the field uses for it.
        inputs: ``inputs(rng, dtype, **dims)`` gives a tuple of NumPy arrays, seeded and never constant.
        work: ``work(itemsize, **dims)`` gives the least work.
        tolerance: dtype name to tolerance, how it was found in a comment beside it. A key ``dtype/size`` wins over
            ``dtype``, and ``dtype/backend`` over both; a label that is a backend's name too means the backend.
        array: the body ``array(xp, *inputs)`` over the array namespace, for NumPy, JAX and the reference.
        implementations: framework, or ``framework/mode``, to the builder of its own form.
        reference: the float64 NumPy reference ``reference(*inputs)``; None takes ``array`` over NumPy.
        donates: positions of inputs whose buffers the implementation consumes or overwrites.
        differentiable: positions of the floating inputs by which the kernel may be differentiated; empty where a
            derivative makes no sense, or no framework has one.
        linear: whether the sum of its outputs is linear in those, piecewise too: its second derivative is zero.
    """

    name: str
    summary: str
    sizes: Mapping[str, Dims]
    dtypes: tuple[str, ...]
    inputs: Callable[..., tuple[np.ndarray, ...]]
    work: Callable[..., Work]
    tolerance: Mapping[str, Tolerance]
    array: Function | None = None
    implementations: Mapping[str, Builder] = field(default_factory=dict)
    reference: Function | None = None
    donates: tuple[int, ...] = ()
    differentiable: tuple[int, ...] = ()
    linear: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or not self.name.islower():
            raise UsageError(f"kernel name {self.name!r}: use a lower-case identifier such as jacobi2d")
        # Python holds nobody to the annotations; what is of another type would fail far from here.
        for name, kind, form in _FORMS:
            value = getattr(self, name)
            entries = value if isinstance(value, tuple | list) else ()
            parts = int if name in _POSITIONS else str
            if not isinstance(value, kind) or not all(isinstance(entry, parts) for entry in entries):
                raise UsageError(f"kernel {self.name}: {name} is {value!r}; give {form}")
        if self.array is None and self.reference is None:
            raise UsageError(f"kernel {self.name}: give array or reference, there is nothing to check outputs against")
        missing = [dtype for dtype in self.dtypes if dtype not in self.tolerance]
        if missing or not self.dtypes or not self.sizes:
            raise UsageError(
                f"kernel {self.name}: sizes, dtypes and a tolerance per dtype are needed, missing {missing}"
            )
        for key in self.tolerance:
            dtype, narrows, label = key.partition("/")
            if narrows and (dtype not in self.tolerance or label not in (*self.sizes, *BACKENDS)):
                labels = ", ".join((*self.sizes, *BACKENDS))
                raise UsageError(
                    f"kernel {self.name}: tolerance of {key!r}: before the slash stands a dtype that has a tolerance "
                    f"of its own, after it one of {labels}"
                )

    def allowed(self, dtype: str, size: str, backend: str) -> Tolerance:
        """Find the tolerance of a case.

        Args:
            dtype: one of the kernel's.
            size: size label.
            backend: such as ``gpu``.

        Returns:
            The one for the dtype on the backend, else for the dtype at the size, else for the dtype.
        """
        keys = (f"{dtype}/{backend}", f"{dtype}/{size}", dtype)
        return next(self.tolerance[key] for key in keys if key in self.tolerance)

    def builder(self, framework: str, mode: str) -> Builder | None:
        """Find the implementation for a framework and mode.

        Args:
            framework: such as ``jax``.
            mode: such as ``jit``; a builder under ``framework/mode`` wins over one under ``framework``.

        Returns:
            The builder, or None where the kernel has none of its own (``array`` may still serve).
        """
        return self.implementations.get(f"{framework}/{mode}") or self.implementations.get(framework)

    def expected(self, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        """Compute the reference outputs in float64.

        Args:
            inputs: the arrays of the case, in its own dtype; floating ones are widened first, so that the
                reference starts from what the case was given.

        Returns:
            Every output leaf as a NumPy array, floating ones in float64.
        """
        wide = tuple(x.astype(np.float64) if is_floating(x.dtype) else x for x in inputs)
        output = self.reference(*wide) if self.reference else self.array(np, *wide)  # type: ignore[misc]
        return [np.asarray(leaf) for leaf in leaves(output)]


def dtype_named(name: str) -> np.dtype[Any]:
    """Give the NumPy dtype of a name.

    Args:
        name: such as ``float32`` or ``bfloat16``.

    Returns:
        The dtype; those that NumPy lacks come from ml_dtypes, which JAX and TensorFlow bring.

    Raises:
        UnavailableError: NumPy lacks it, and ml_dtypes is not installed.
        UsageError: there is no such dtype.
    """
    if not is_extension(name):
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise UnavailableError(f"{name} is no dtype of NumPy's own; pip install ml_dtypes") from error
    found = getattr(ml_dtypes, name, None)
    if found is None:
        raise UsageError(f"unknown dtype {name!r}: neither NumPy nor ml_dtypes {ml_dtypes.__version__} has it")
    dtype: np.dtype[Any] = np.dtype(found)
    return dtype


def itemsize(dtype: str) -> int:
    """Give the bytes of one number, of dtypes that are not installed as well.

    Args:
        dtype: dtype name.

    Returns:
        Bytes, at least 1: what is narrower takes a byte where it is not packed.
    """
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1


def is_extension(name: str) -> bool:
    """Tell whether a dtype is one that NumPy lacks.

    Args:
        name: dtype name.

    Returns:
        True for bfloat16, the float8 kinds and all else that NumPy does not define by itself.
    """
    return not isinstance(getattr(np, name, None), type)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is a real floating one, bfloat16 and the float8 kinds included.

    Args:
        dtype: NumPy dtype, an extension dtype of ml_dtypes among them.

    Returns:
        True for floating dtypes.
    """
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def leaves(output: object) -> list[Any]:
    """Flatten nested tuples, lists and dicts of outputs, in order (dicts by sorted key, as JAX does).

    Args:
        output: what a kernel returned.

    Returns:
        The leaves; None counts as no leaf. Lists of plain Python numbers are one leaf.
    """
    if output is None:
        return []
    if isinstance(output, dict):
        return [leaf for key in sorted(output) for leaf in leaves(output[key])]
    if isinstance(output, list) and output and all(isinstance(item, bool | int | float | complex) for item in output):
        return [output]
    if isinstance(output, tuple | list):
        return [leaf for item in output for leaf in leaves(item)]
    return [output]
