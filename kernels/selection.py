"""Selection: which cells of a matrix are measured, given filters and what is installed here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from kernels.case import Case, Matrix, Plan, Skip, backend, derivative
from kernels.discovery import find, suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks, modes
from kernels.image import advice
from kernels.measurement import Measurement, Status
from kernels.own import Own, own
from kernels.progress import Row
from kernels.reference import Reference, is_own


@dataclass(frozen=True, slots=True)
class Filters:
    """What to keep of a matrix, by axis; an empty axis keeps all of it.

    Attributes:
        kernel: kernel names, and references to kernels of the user's own, which join those of the matrix.
        framework: such as ``jax`` for all of its modes, or ``jax/jit``.
        size: size labels.
        dtype: dtype names.
        backend: where to measure, in place of the matrix's own backends: a matrix does not know the machine.
        derivative: orders of the derivative, in place of the matrix's own: whatever it measures may be differentiated.
    """

    kernel: tuple[str, ...] = ()
    framework: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()
    derivative: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Write the filters as options for the shell, such as ``--kernel dense --size M``."""
        pairs = [(axis, str(value)) for axis, values in asdict(self).items() for value in values]
        return " ".join(f"--{axis} {shlex.quote(value)}" for axis, value in pairs)

    def names(self, framework: str) -> bool:
        """Tell whether a framework was asked for by name.

        Args:
            framework: the adapter's name.

        Returns:
            True where a filter names it or one of its modes.
        """
        return any(value.partition("/")[0] == framework for value in self.framework)


def everything() -> Matrix:
    """Give the matrix of all that there is.

    Returns:
        Every kernel of the suite in every framework and mode, at its own sizes and dtypes, on the host; values, and no
        derivative.
    """
    return Matrix("all", tuple(suite()), tuple(modes()), dtypes=())


def select(matrix: Matrix, filters: Filters) -> Plan:
    """Turn a matrix and filters into the cells of a run.

    Args:
        matrix: the product and its exclusions.
        filters: what to keep of it.

    Returns:
        Cases and skips. A cell that only a filter would make, such as a size that one of several kernels lacks, is
        neither.

    Raises:
        UsageError: a value is not in the matrix, no case is left, or a kernel of the user's own cannot serve.
    """
    found: dict[str, Own] = {}
    matrix = replace(matrix, kernels=_names((*matrix.kernels, *filter(is_own, filters.kernel)), found))
    axes = asdict(replace(filters, kernel=_names(filters.kernel, found)))
    backends = tuple(dict.fromkeys(backend(name, "--backend") for name in axes.pop("backend")))
    orders = tuple(dict.fromkeys(derivative(order, "--derivative") for order in axes.pop("derivative")))
    narrowed = matrix.narrowed(**axes)
    narrowed = replace(narrowed, backends=backends or matrix.backends, derivatives=orders or matrix.derivatives)
    kernels = {**suite(), **{name: given.kernels[name] for name, given in found.items()}}
    plan = narrowed.expand(kernels, modes(), {name: (given.source, given.sha256) for name, given in found.items()})
    skips = tuple(skip for skip in plan.skips if _in_product(matrix, skip.case))
    if not plan.cases:
        asked = f" under {filters}" if str(filters) else ""
        reasons = "; ".join(dict.fromkeys(skip.reason for skip in plan.skips))
        raise UsageError(f"no case is left of matrix {matrix.name}{asked}: {reasons}; widen a filter or the matrix")
    return Plan(plan.cases, skips)


def _names(entries: Iterable[str], found: dict[str, Own]) -> tuple[str, ...]:
    """Give each reference's kernels in its place; ``found`` learns whose they are."""
    names: list[str] = []
    for entry in entries:
        if not is_own(entry):
            names.append(entry)
            continue
        given = own(Reference.of(entry))
        for name in given.kernels:
            other = found.setdefault(name, given)
            if other.source != given.source:
                both = f"{other.places[name]} and {given.places[name]}"
                raise UsageError(f"{both}: two kernels are named {name}; rename one, or measure one at a time")
            names.append(name)
    return tuple(dict.fromkeys(names))


def unavailable_reason(case: Case) -> str | None:
    """Say why a case cannot be measured in this interpreter, without starting a process.

    Args:
        case: the case.

    Returns:
        The reason with the way to get the framework; None where it is installed. Whether the case's device
        is there is for its own process to tell: nothing is opened here.
    """
    adapter = frameworks()[case.framework]
    return None if adapter.installed() else f"{case.framework} is not installed; {advice(adapter.INSTALL)}"


def asked_for(row: Row, filters: Filters) -> bool:
    """Tell whether the user named what an unavailable row lacks; only then does the row count as failed.

    Args:
        row: of status unavailable.
        filters: what the user named.

    Returns:
        True where a filter names the framework, or the backend of a framework that is installed.
    """
    return filters.names(row.case.framework) or (bool(filters.backend) and unavailable_reason(row.case) is None)


def partition(plan: Plan) -> tuple[list[Case], list[Measurement]]:
    """Split a plan into what can be tried here and the rows of what cannot.

    Args:
        plan: cases and skips.

    Returns:
        The cases whose framework is installed, and a row for each skip and each case whose framework is not.
    """
    reasons = {case: unavailable_reason(case) for case in plan.cases}
    rows = [Measurement.of_skip(skip) for skip in plan.skips]
    for case, reason in reasons.items():
        if reason is not None:
            rows.append(replace(Measurement.of_skip(Skip(case, reason)), status=Status.UNAVAILABLE))
    return [case for case, reason in reasons.items() if reason is None], rows


def _in_product(matrix: Matrix, case: Case) -> bool:
    kernel = find(case.kernel, case.source)
    return (bool(matrix.sizes) or case.size in kernel.sizes) and (bool(matrix.dtypes) or case.dtype in kernel.dtypes)
