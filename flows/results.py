"""Measurements to rows, rows to Parquet files in the layout of results; nothing of Prefect."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from flows import plan, schema
from flows.order import Order
from flows.validity import arrays
from kernels.case import Backend, Case
from kernels.discovery import find
from kernels.floors import Roofline, declared_work
from kernels.machine import RECORDED, Environment, Machine, affinity
from kernels.measurement import Measurement, Timing
from kernels.phase import Phase
from kernels.progress import Row, outcome
from kernels.selection import Filters, asked_for
from kernels.statistics import headline
from kernels.variables import environment

_COLUMN_FACTS = frozenset(
    name
    for name in schema.TIMINGS.names
    if name.startswith(("program_", "peak_", "warmup_", "cpu_", "output_", "roof"))
)


def uuid7(moment: datetime | None = None, name: str | None = None) -> uuid.UUID:
    """Make a UUID of version 7 (RFC 9562, section 5.7): ordered by time, random in the rest.

    Args:
        moment: its time; None takes now.
        name: what the rest is the hash of, so that the same moment and name give the same UUID; None takes chance.

    Returns:
        The UUID.
    """
    milliseconds = int(1000 * moment.timestamp()) if moment else time.time_ns() // 1_000_000
    rest = secrets.randbits(80) if name is None else int.from_bytes(hashlib.sha256(name.encode()).digest()[:10], "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


@dataclass(slots=True)
class Run:
    """One execution of a matrix: what all of its rows share.

    Attributes:
        order: what was asked for.
        command: the command that repeats it; None where no command does.
        id: UUIDv7.
        started_at: begin, in UTC.
        machine: the hardware.
        environment: versions, variables, limits.
        rooflines: measured bandwidths and rates, by backend.
        warnings: what may falsify timings here, as found at the start.
        complete: whether the run ended by itself.
        taken: whether a machine took it; of one that none took, rows name no machine, no hardware and no image.
    """

    order: Order
    command: str | None
    id: str = field(default_factory=lambda: str(uuid7()))
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    machine: Machine = field(default_factory=Machine.here)
    environment: Environment = field(default_factory=Environment.here)
    rooflines: dict[Backend, Roofline] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    complete: bool = False
    taken: bool = True

    @property
    def fingerprint(self) -> str | None:
        """The machine's fingerprint; None where none took the run."""
        return self.machine.fingerprint if self.taken else None

    @property
    def image(self) -> str | None:
        """The container image; None where none ran."""
        return self.environment.image if self.taken else None

    @property
    def version(self) -> str:
        """The version of jitmatrix."""
        return importlib.metadata.version("jitmatrix")

    def plan(self) -> tuple[str, str]:
        """Write out what is to be measured.

        Returns:
            The matrix, the filters and the sampling as JSON; and the plan's hash, in which its cells are too.
        """
        return plan.settings(self.order), plan.plan_hash(self.order)

    def row(self, measurements: Iterable[Row]) -> dict[str, Any]:
        """Make the run's row.

        Args:
            measurements: of every cell of the plan.

        Returns:
            Column to value.
        """
        order = self.order
        text, plan_hash = self.plan()
        return {
            "run_id": self.id,
            "started_at": self.started_at,
            "finished_at": datetime.now(UTC),
            "complete": self.complete,
            "command": self.command,
            "matrix": order.matrix.name,
            "plan": text,
            "plan_hash": plan_hash,
            "seed": order.sampling.seed,
            **counts(measurements, order.filters),
            "machine": self.fingerprint,
            "hardware": json.dumps(asdict(self.machine)) if self.taken else None,
            "environment": json.dumps(self.environment.to_json() | {"case_variables": case_variables(order.workers)}),
            "roofline": _json(self.rooflines),
            "warnings": self.warnings,
            "commit": self.environment.commit,
            "dirty": self.environment.dirty,
            "image": self.image,
            "version": self.version,
        }


def case_variables(workers: int | None) -> dict[str, str]:
    """Give the environment variables that bear on a timing, as the cases' processes have them.

    Args:
        workers: cases side by side, of one thread each; None takes every processor.

    Returns:
        Name to value: thread counts and settings of the harness included, what it drops of the user's left out.
    """
    variables = environment(1 if workers else len(affinity()))
    return {name: value for name, value in sorted(variables.items()) if RECORDED.search(name)}


def counts(measurements: Iterable[Row], filters: Filters) -> dict[str, int]:
    """Count the cells of a run: planned = ok + failed + skipped.

    Args:
        measurements: of every cell of the plan.
        filters: an unavailable cell is skipped, unless they name what it lacks.

    Returns:
        The four counts by name.
    """
    found = Counter(outcome(row, lambda row: asked_for(row, filters)) for row in measurements)
    return {"planned": found.total(), **{name: found[name] for name in ("ok", "failed", "skipped")}}


def rows(run: Run, measurement: Measurement) -> list[dict[str, Any]]:
    """Make the rows of a measurement: one per planned phase, whether it was timed or not.

    Args:
        run: what all rows share.
        measurement: the measurement.

    Returns:
        Rows, column to value; what was not timed is null.
    """
    case, facts = measurement.case, measurement.facts
    shared = {
        "run_id": run.id,
        "measured_at": run.started_at,
        "case_id": case.id,
        **case.to_json(),
        "cold": run.order.sampling.cold,
        "status": measurement.status.value,
        "reason": measurement.reason,
        **{name: facts.get(name) for name in _COLUMN_FACTS},
        "facts": _json({name: value for name, value in facts.items() if name not in _COLUMN_FACTS}),
        "machine": run.fingerprint,
        "image": run.image,
        **_declared(case),
    }
    phases = dict.fromkeys((*measurement.planned, *measurement.timings))
    return [
        {**shared, "phase": phase.value, **_timed(measurement, phase, measurement.timings.get(phase))}
        for phase in phases
    ]


def table(values: list[dict[str, Any]], columns: pa.Schema, run: Run) -> pa.Table:
    """Make an Arrow table of the explicit schema.

    Args:
        values: rows, column to value.
        columns: the schema.
        run: named in the footer.

    Returns:
        The table, with schema version, run and commit in its metadata.

    Raises:
        ValueError: a value is not what its column holds, such as NaN or an unknown status; case and column are named.
    """
    footer = {
        "schema_version": str(schema.VERSION),
        "run_id": run.id,
        "commit": run.environment.commit or "",
    }
    return pa.Table.from_arrays(arrays(values, columns), schema=columns.with_metadata(footer))


def _json(value: object) -> str:
    """Write JSON that every reader takes: what is not finite is null there, as it is in a column."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))


def _timed(measurement: Measurement, phase: Phase, timing: Timing | None) -> dict[str, Any]:
    flags = {**measurement.flags, **(timing.flags if timing else {})}
    found: dict[str, Any] = {"flags": list(flags), "flag_reasons": list(flags.values())}
    if phase is not Phase.STEADY:
        found["roofline_share"] = None
    if timing is None:
        return found
    top = headline(timing.per_call())
    return found | {
        "rounds": len(timing.samples),
        "samples": [list(round_) for round_ in timing.samples],
        "inner_calls": list(timing.inner_calls),
        "median_ns": top.median.value,
        "low_ns": top.median.low,
        "high_ns": top.median.high,
        "min_ns": top.minimum,
        "spread": top.spread,
        **timing.events,
        "event_ns": list(timing.event_ns) if timing.event_ns is not None else None,
    }


def _declared(case: Case) -> dict[str, Any]:
    dims = find(case.kernel, case.source).sizes.get(case.size)
    if dims is None:
        return {"dims": "{}", "work_operations": None, "work_nbytes": None}
    work = declared_work(case)
    return {
        "dims": json.dumps(dict(dims)),
        "work_operations": None if case.derivative == 2 else work.operations,
        "work_nbytes": None if case.derivative else work.nbytes,
    }
