"""An order for a run: what to measure, how, and where the results go; checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from flows.settings import settings
from flows.storage import Root, root
from kernels import matrix_file
from kernels.case import Backend, Matrix, Plan
from kernels.errors import unknown
from kernels.reference import is_own
from kernels.selection import Filters, everything, select
from kernels.timing import Sampling
from kernels.workers import check

OPTIONS = ("rounds", "budget_s", "seed", "timeout_s", "min_sample_ms", "cold")
"""Settings of Sampling that the flow takes as parameters."""

_MATRICES = Path(__file__).parent / "matrices"


class InlineMatrix(BaseModel):
    """A matrix written out, for a deployment's parameters; the keys of a matrix file."""

    model_config = ConfigDict(extra="forbid", title="Matrix")

    kernels: list[str] | Literal["all"] = Field(description="Kernel names, such as dense, or all.")
    frameworks: list[str] | Literal["all"] = Field(description="Framework and mode, such as jax/jit, or all.")
    sizes: list[str] = Field(default=[], description="Size labels; empty takes every kernel's own sizes.")
    dtypes: list[str] = Field(default=["float32", "float64"], description="Dtype names.")
    title: str = Field(default="", description="What it is for, in a line.")
    derivatives: list[int] = Field(default=[0], description="0 the value, 1 the gradient, 2 a Hessian-vector product.")
    backends: list[Backend] = Field(default=[Backend.CPU], description="Where to measure.")
    exclude: list[dict[str, Any]] = Field(default=[], description="Axes to leave out together, each with a reason.")
    sampling: dict[str, float | int | bool] = Field(default={}, description="Settings such as rounds and budget_s.")


@dataclass(frozen=True, slots=True)
class Order:
    """What a run is to do.

    Attributes:
        named: how the matrix was named: by its name, its path, or written out.
        matrix: the matrix, whole.
        filters: what was kept of it.
        plan: the cells: cases and skips.
        sampling: how each case is sampled.
        root: where the results go.
        workers: cases side by side; None takes one at a time.
        programs: whether compiled programs' texts are kept.
    """

    named: str | InlineMatrix
    matrix: Matrix
    filters: Filters
    plan: Plan
    sampling: Sampling
    root: Root
    workers: int | None = None
    programs: bool = False

    def parameters(self) -> dict[str, Any]:
        """Give the parameters of the flow `bench` that make this order.

        Returns:
            Plain values, as Prefect takes them.
        """
        changed = {name: value for name, value in self.sampling.to_json().items() if name in OPTIONS}
        filters = {axis: list(values) for axis, values in asdict(self.filters).items()}
        others = {"results": self.root.address, "workers": self.workers, "programs": self.programs}
        matrix = self.named if isinstance(self.named, str) else self.named.model_dump(mode="json")
        return {"matrix": matrix, **filters, **changed, **others}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Order:
        """Check an order that is given as the parameters of the flow `bench`.

        Args:
            parameters: by name, as ``parameters`` gives them.

        Returns:
            The order.

        Raises:
            UsageError: something in it does not exist, cannot be had, or leaves no case; more workers than cores.
        """
        filters = Filters(**{axis.name: tuple(parameters[axis.name]) for axis in fields(Filters)})
        matrix = parameters["matrix"]
        return cls.of(
            InlineMatrix.model_validate(matrix) if isinstance(matrix, Mapping) else matrix,
            filters,
            {name: parameters[name] for name in OPTIONS},
            parameters["results"] or settings().results,
            workers=parameters["workers"],
            programs=parameters["programs"],
        )

    @classmethod
    def of(
        cls,
        matrix: str | InlineMatrix | None,
        filters: Filters,
        sampling: Mapping[str, Any],
        results: str,
        *,
        workers: int | None = None,
        programs: bool = False,
    ) -> Order:
        """Check an order; nothing is written.

        Args:
            matrix: name of a matrix, path of a matrix file, or the matrix itself; None takes seeds, or all where a
                kernel of the user's own is named: what it can do, no matrix of ours knows.
            filters: what to keep of it.
            sampling: settings that win over the matrix's own; None values are left out.
            results: root of the results.
            workers: cases side by side; None takes one at a time.
            programs: whether compiled programs' texts are kept.

        Returns:
            The order.

        Raises:
            UsageError: something in it does not exist, cannot be had, or leaves no case; more workers than cores.
        """
        matrix = matrix or ("all" if any(map(is_own, filters.kernel)) else "seeds")
        chosen = load(matrix) if isinstance(matrix, str) else _inline(matrix)
        given = {name: value for name, value in sampling.items() if value is not None}
        sampled = Sampling.from_mapping({**chosen.sampling, **given}, f"matrix {chosen.name} and options")
        plan = select(chosen, filters)
        check(workers, {case.backend for case in plan.cases})
        return cls(matrix, chosen, filters, plan, sampled, root(results), workers, programs)


def names() -> list[str]:
    """List the matrices that come with the project.

    Returns:
        Their names; ``all`` is every kernel in every framework and mode, at its own sizes and dtypes.
    """
    return sorted(["all", *(path.stem for path in _MATRICES.glob("*.toml"))])


def load(name: str) -> Matrix:
    """Load a matrix.

    Args:
        name: one of ``names()``, or the path of a TOML file.

    Returns:
        The matrix.

    Raises:
        UsageError: there is no such matrix, or the file is malformed.
    """
    if name.endswith(".toml") or "/" in name:
        return matrix_file.read(Path(name))
    if name not in names():
        raise unknown("matrix", name, names(), "--matrix, which also takes the path of a .toml file")
    return everything() if name == "all" else matrix_file.read(_MATRICES / f"{name}.toml")


def _inline(matrix: InlineMatrix) -> Matrix:
    value = matrix.model_dump(mode="json")
    return matrix_file.parse(value, "inline", "parameter matrix")
