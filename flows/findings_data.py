"""What stored runs of one machine say of each case, with the samples that ratios need; nothing of Prefect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from flows.query import looked
from flows.references import find, json_of, stored_runs
from flows.sides import unfit
from flows.storage import Root
from kernels.errors import UsageError
from kernels.frameworks import modes
from kernels.phase import Phase
from kernels.statistics import Rounds, per_call

_ROWS = """
    select case_id, kernel, framework, mode, size, dims, dtype, coalesce(derivative, 0) as derivative, backend,
        coalesce(cold, false) as cold, workers, source, phase, status, reason, coalesce(flags, []) as flags, samples,
        inner_calls, median_ns, low_ns, high_ns, traces, compiles, program_hash, facts, machine, run_id
    from latest order by kernel, dtype, derivative, work_operations, framework, mode, workers
"""
_RUNS = "from runs where run_id in (select distinct run_id from latest) order by started_at, run_id"

PHASES = tuple(each.value for each in Phase)
"""In the order in which they happen."""

NOT_COMPILED = frozenset({"eager", "plain", "lru_cache"})
"""Modes that compile nothing."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """A phase of a case.

    Attributes:
        median_ns: median of the rounds' medians, nanoseconds per call, as it is stored.
        low_ns: lower end of its 95 % interval.
        high_ns: upper end.
        rounds: its samples, nanoseconds per call.
        flags: reasons not to trust it.
        traces: how often the framework traced the function, over all rounds; None where it reports nothing.
        compiles: compilations that the framework reported, over all rounds; None where it reports none.
    """

    median_ns: float
    low_ns: float
    high_ns: float
    rounds: Rounds
    flags: tuple[str, ...]
    traces: int | None
    compiles: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """A case in the newest complete run that tried it.

    Attributes:
        case_id: its name.
        kernel: name of the computation.
        name: framework/mode.
        cell: what two cases must share to be compared, the kernel apart.
        own: whether the kernel is in a file of its own, which may have the name of one of the suite.
        status: how it ended.
        reason: why, where the status is not ok.
        retrace_size: label of the size that it was called at after steady state; None where it was not.
        program: sha256 of the compiled program's text; None where there is none.
        timings: what was timed, by phase.
    """

    case_id: str
    kernel: str
    name: str
    cell: tuple[Any, ...]
    own: bool
    status: str
    reason: str | None
    retrace_size: str | None
    program: str | None
    timings: Mapping[str, Timing]

    @property
    def size(self) -> str:
        """Label of the size."""
        return str(self.cell[0])

    @property
    def dtype(self) -> str:
        """The dtype."""
        return str(self.cell[2])

    @property
    def derivative(self) -> int:
        """Order of the derivative, 0 for the value."""
        return int(self.cell[3])

    @property
    def one_thread(self) -> bool:
        """Whether it was pinned to a core, with one thread."""
        return self.cell[-1] is not None

    @property
    def compiled(self) -> bool:
        """Whether its mode compiles."""
        return self.name.partition("/")[2] not in NOT_COMPILED

    def trusted(self, phase: str) -> Timing | None:
        """Give a timing that may be compared.

        Args:
            phase: what was timed.

        Returns:
            The timing; None where the case is not ok, was not timed so, or carries a flag.
        """
        timing = self.timings.get(phase)
        return timing if timing is not None and self.status == "ok" and not timing.flags else None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the page is made of.

    Attributes:
        address: of the root.
        runs: rows of ``runs``, the oldest first.
        cases: by kernel, dtype and size.
    """

    address: str
    runs: Sequence[Row]
    cases: Sequence[Found]

    def beside(self, case: Found, name: str) -> Found | None:
        """Find the same computation in another mode.

        Args:
            case: the case.
            name: framework/mode.

        Returns:
            The other case; None where it was not measured.
        """
        return next(
            (
                each
                for each in self.cases
                if (each.kernel, each.own, each.cell, each.name) == (case.kernel, case.own, case.cell, name)
            ),
            None,
        )

    def next_size(self, case: Found) -> Found | None:
        """Find the case of the size that a case was called at after steady state.

        Args:
            case: the case.

        Returns:
            The other case; None where it was not measured.
        """

        def key(each: Found, size: str | None) -> tuple[Any, ...]:
            # The dimensions are those of the label; all else is the same.
            return each.kernel, each.own, each.name, size, each.cell[2:]

        wanted = key(case, case.retrace_size)
        return next((each for each in self.cases if key(each, each.size) == wanted), None)

    def eager(self, case: Found) -> Found | None:
        """Find what runs the same computation without a compiler.

        Args:
            case: of a mode that compiles.

        Returns:
            The framework's own eager mode where it has one, else NumPy; None where that was not measured.
        """
        own = f"{case.name.partition('/')[0]}/eager"
        return self.beside(case, own if own in modes() else "numpy/eager")


def gather(root: Root) -> Findings:
    """Read the newest state of every case.

    Args:
        root: of the results.

    Returns:
        It, with the runs that it is from.

    Raises:
        UsageError: there is no complete run or no case in it, or machines differ.
        StorageError: the root cannot be read.
    """
    find(stored_runs(root), "latest", root.address)

    def work(connection: duckdb.DuckDBPyConnection) -> tuple[list[Row], list[Row]]:
        runs, rows = (connection.sql(sql).to_arrow_table().to_pylist() for sql in (_RUNS, _ROWS))
        return runs, rows

    (runs, rows), _ = looked(root, work)
    if not rows:
        raise UsageError(f"{root.address}: there is no case in its runs; measure some with jitmatrix bench")
    machines = sorted({row["machine"] for row in rows if row["machine"]})
    if len(machines) > 1:
        raise UsageError(
            f"{root.address}: holds runs of {len(machines)} machines ({', '.join(machines)}), and findings are of "
            "one; name a root with the runs of one machine"
        )
    by_case: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["case_id"], row["cold"], row["workers"], row["source"])
        by_case.setdefault(key, []).append(row)
    return Findings(root.address, runs, [_found(each) for each in by_case.values()])


def _found(rows: Sequence[Row]) -> Found:
    first = rows[0]
    names = ("size", "dims", "dtype", "derivative", "backend", "cold", "workers")
    return Found(
        first["case_id"],
        first["kernel"],
        f"{first['framework']}/{first['mode']}",
        tuple(first[name] for name in names),
        first["source"] is not None,
        first["status"],
        first["reason"],
        json_of(first["facts"]).get("retrace_size"),
        next((row["program_hash"] for row in rows if row["program_hash"]), None),
        {row["phase"]: _timing(row) for row in rows if row["samples"] and not unfit(row)},
    )


def _timing(row: Row) -> Timing:
    rounds = per_call(row["samples"], row["inner_calls"])
    return Timing(
        row["median_ns"], row["low_ns"], row["high_ns"], rounds, tuple(row["flags"]), row["traces"], row["compiles"]
    )
