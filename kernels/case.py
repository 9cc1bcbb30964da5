"""Case, Matrix and Skip: the cells to measure, and the cells that are left out with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from kernels.errors import UsageError, unknown
from kernels.spec import Kernel


class Backend(StrEnum):
    """Where the arrays live."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix.

    Attributes:
        kernel: the kernel's name.
        framework: such as ``jax``.
        mode: such as ``jit``.
        size: the size's label.
        dtype: dtype name.
        derivative: 0 the value, 1 the gradient, 2 a Hessian-vector product.
        backend: where the arrays are to live.
        source: absolute path of the file that holds the kernel, or its module's name; None for the suite.
        source_sha256: of that file's bytes when the run was planned; a case's process computes nothing else.
    """

    kernel: str
    framework: str
    mode: str
    size: str
    dtype: str
    derivative: int = 0
    backend: Backend = Backend.CPU
    source: str | None = None
    source_sha256: str | None = None

    @property
    def id(self) -> str:
        """The name of the case, such as ``dense-jax-jit-M-float32-cpu``; the derivative stands there when not 0."""
        derivative = [f"d{self.derivative}"] if self.derivative else []
        parts = [self.kernel, self.framework, self.mode, self.size, self.dtype, *derivative, self.backend.value]
        return "-".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Give the case as strings, numbers and null, for the process boundary."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Case:
        """Read back what ``to_json`` gave.

        Args:
            value: the mapping.

        Returns:
            The case.
        """
        return cls(**{**value, "backend": Backend(value["backend"])})


@dataclass(frozen=True, slots=True)
class Skip:
    """A cell that is not measured, and why."""

    case: Case
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a matrix expands to; together, ``cases`` and ``skips`` are every cell of the product."""

    cases: tuple[Case, ...]
    skips: tuple[Skip, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A pattern of cells to leave out: every key that is given must match.

    Attributes:
        reason: why, in words; it stands in each skipped row.
        match: axis name to the values that are excluded.
    """

    reason: str
    match: Mapping[str, tuple[str, ...]]

    def covers(self, case: Case) -> bool:
        """Tell whether a case falls under the exclusion.

        Args:
            case: the cell.

        Returns:
            True when every axis that is named holds one of its values.
        """
        return all(any(_named(_axis(case, axis), value) for value in values) for axis, values in self.match.items())


DERIVATIVES = (0, 1, 2)
"""The value, the gradient with its objective, a Hessian-vector product."""

AXES = ("kernel", "framework", "size", "dtype", "derivative", "backend")
"""The axes that a filter or an exclusion may name; a framework is ``jax`` or ``jax/jit``."""


Sources = Mapping[str, tuple[str, str]]
"""Kernel name to ``source`` and ``source_sha256`` of its cases."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A product of axes, and what is taken out of it.

    Attributes:
        name: under which it was asked for.
        kernels: kernel names.
        frameworks: ``framework/mode`` names.
        sizes: size labels; empty takes every kernel's own sizes.
        dtypes: dtype names; empty takes every kernel's own dtypes.
        derivatives: 0, 1, 2.
        backends: where to measure.
        exclude: what is left out, with reasons.
        sampling: settings of Sampling that the matrix changes, such as rounds.
    """

    name: str
    kernels: tuple[str, ...]
    frameworks: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "float64")
    derivatives: tuple[int, ...] = (0,)
    backends: tuple[Backend, ...] = (Backend.CPU,)
    exclude: tuple[Exclusion, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def expand(
        self, kernels: Mapping[str, Kernel], modes: Mapping[str, ModeLike], sources: Sources | None = None
    ) -> Plan:
        """Expand the product.

        Args:
            kernels: every kernel by name.
            modes: every ``framework/mode`` by name.
            sources: where the kernels of a user's own stand; the others are of the suite.

        Returns:
            Cases and skips; none of the product is in neither, and none in both.

        Raises:
            UsageError: an axis names something that does not exist, or the product is empty.
        """
        self._validate(kernels, modes)
        cases: list[Case] = []
        skips: list[Skip] = []
        for name in self.kernels:
            kernel = kernels[name]
            for cell in self._cells(kernel, *(sources or {}).get(name, (None, None))):
                reason = self._skipped(kernel, modes[f"{cell.framework}/{cell.mode}"], cell)
                if reason is None:
                    cases.append(cell)
                else:
                    skips.append(Skip(cell, reason))
        if not cases and not skips:
            raise UsageError(f"matrix {self.name}: an axis is empty, no case is left; name at least one value of each")
        return Plan(tuple(cases), tuple(skips))

    def _validate(self, kernels: Mapping[str, Kernel], modes: Mapping[str, ModeLike]) -> None:
        where = f"matrix {self.name}"
        sizes = sorted({label for name in self.kernels if name in kernels for label in kernels[name].sizes})
        all_sizes = sorted({label for kernel in kernels.values() for label in kernel.sizes})
        dtypes = sorted({dtype for kernel in kernels.values() for dtype in kernel.dtypes})
        for what, values, choices in (
            ("kernel", self.kernels, kernels),
            ("framework/mode", self.frameworks, modes),
            ("size", self.sizes, sizes),
            ("dtype", self.dtypes, dtypes),
        ):
            for value in values:
                if value not in choices:
                    raise unknown(what, value, choices, where)
        names = {"kernel": kernels, "size": all_sizes, "dtype": dtypes, "backend": [b.value for b in Backend]}
        names["derivative"] = [str(order) for order in DERIVATIVES]
        names["framework"] = [*dict.fromkeys(name.partition("/")[0] for name in modes), *modes]
        for exclusion in self.exclude:
            for axis, values in exclusion.match.items():
                for value in values:
                    if value not in names[axis]:
                        raise unknown(axis, value, names[axis], f"{where}, [[exclude]]")

    def _cells(self, kernel: Kernel, source: str | None, sha256: str | None) -> Iterable[Case]:
        for size in self.sizes or kernel.sizes:
            for dtype in self.dtypes or kernel.dtypes:
                for framework in self.frameworks:
                    name, _, mode = framework.partition("/")
                    for derivative in self.derivatives:
                        for backend in self.backends:
                            yield Case(kernel.name, name, mode, size, dtype, derivative, backend, source, sha256)

    def _skipped(self, kernel: Kernel, mode: ModeLike, case: Case) -> str | None:
        for exclusion in self.exclude:
            if exclusion.covers(case):
                return exclusion.reason
        if case.size not in kernel.sizes:
            return f"{kernel.name} has no size {case.size}"
        if case.dtype not in kernel.dtypes:
            return f"{kernel.name} is not defined for {case.dtype}"
        return mode.refuses(kernel, case)

    def narrowed(self, **filters: tuple[str | int, ...]) -> Matrix:
        """Keep only what the filters name.

        Args:
            filters: axis of ``AXES`` to the values to keep; an empty one keeps all. ``jax`` as a framework keeps
                all of its modes.

        Returns:
            The narrower matrix.

        Raises:
            UsageError: a value is not in the matrix.
        """
        changes: dict[str, Any] = {}
        for axis, wanted in filters.items():
            have: tuple[str | int, ...] = getattr(self, f"{axis}s")
            for value in wanted:
                if have and not any(_named(entry, value) for entry in have):
                    raise unknown(axis, value, map(str, have), f"--{axis}, in matrix {self.name}")
            if wanted:
                # An open axis (every kernel's own sizes) takes the filter as it is; expand checks it.
                kept = [entry for entry in have if any(_named(entry, value) for value in wanted)]
                changes[f"{axis}s"] = tuple(kept or dict.fromkeys(wanted))
        return replace(self, **changes)


class ModeLike(Protocol):
    """What ``expand`` must know of a framework's mode; the adapters' Mode is one."""

    def refuses(self, kernel: Kernel, case: Case) -> str | None:
        """Say why a case cannot be had in this mode, whatever is installed.

        Args:
            kernel: the kernel.
            case: the cell.

        Returns:
            The reason, or None where the case can be had.
        """
        ...


def backend(name: str, where: str = "") -> Backend:
    """Read a backend's name.

    Args:
        name: cpu, gpu or tpu.
        where: the option or file in which it was given.

    Returns:
        The backend.

    Raises:
        UsageError: there is no such backend.
    """
    try:
        return Backend(name)
    except ValueError:
        raise unknown("backend", name, [b.value for b in Backend], where) from None


def derivative(order: object, where: str = "") -> int:
    """Read the order of a derivative.

    Args:
        order: 0, 1 or 2.
        where: the option or file in which it was given.

    Returns:
        The order.

    Raises:
        UsageError: it is none of the three.
    """
    if isinstance(order, bool) or not isinstance(order, int) or order not in DERIVATIVES:
        raise unknown("derivative", order, [str(known) for known in DERIVATIVES], where)
    return order


def _axis(case: Case, axis: str) -> str:
    return f"{case.framework}/{case.mode}" if axis == "framework" else str(getattr(case, axis))


def _named(entry: str | int, wanted: str | int) -> bool:
    return entry == wanted or str(entry).startswith(f"{wanted}/")
