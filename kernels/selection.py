"""Selection: which cells of a matrix are measured, given filters and what is installed here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from kernels.case import Case, Matrix, Plan, Skip, backend
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks, modes
from kernels.measurement import Measurement, Status


@dataclass(frozen=True, slots=True)
class Filters:
    """What to keep of a matrix, by axis; an empty axis keeps all of it.

    Attributes:
        kernel: kernel names.
        framework: such as ``jax`` for all of its modes, or ``jax/jit``.
        size: size labels.
        dtype: dtype names.
        backend: where to measure, in place of the matrix's own backends: a matrix does not know the machine.
    """

    kernel: tuple[str, ...] = ()
    framework: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write the filters as options, such as ``--kernel dense --size M``."""
        return " ".join(f"--{axis} {value}" for axis, values in asdict(self).items() for value in values)

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
        Every kernel of the suite in every framework and mode, at its own sizes and dtypes, on the host.
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
        UsageError: a value is not in the matrix, or no case is left.
    """
    axes = asdict(filters)
    backends = tuple(dict.fromkeys(backend(name, "--backend") for name in axes.pop("backend")))
    narrowed = replace(matrix.narrowed(**axes), backends=backends or matrix.backends)
    plan = narrowed.expand(suite(), modes())
    skips = tuple(skip for skip in plan.skips if _in_product(matrix, skip.case))
    if not plan.cases:
        asked = f" under {filters}" if str(filters) else ""
        reasons = "; ".join(dict.fromkeys(skip.reason for skip in plan.skips))
        raise UsageError(f"no case is left of matrix {matrix.name}{asked}: {reasons}; widen a filter or the matrix")
    return Plan(plan.cases, skips)


def unavailable_reason(case: Case) -> str | None:
    """Say why a case cannot be measured in this interpreter, without starting a process.

    Args:
        case: the case.

    Returns:
        The reason with the line that installs the framework; None where it is installed. Whether the case's device
        is there is for its own process to tell: nothing is opened here.
    """
    adapter = frameworks()[case.framework]
    return None if adapter.installed() else f"{case.framework} is not installed; {adapter.INSTALL}"


def asked_for(row: Measurement, filters: Filters) -> bool:
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
    kernel = suite()[case.kernel]
    return (bool(matrix.sizes) or case.size in kernel.sizes) and (bool(matrix.dtypes) or case.dtype in kernel.dtypes)
