"""Plans: what a matrix was expanded to, cells and the reasons of skips, stored once under a hash of that content.

The plan of a run is known by a hash of its matrix, filters and sampling, and of every cell with its dimensions and the
bytes of a user's own kernel: where two machines give the same hash, they mean the same measurements. It stands in
``runs.plan_hash``. A stored plan holds those of all runs of a sweep, one for each backend, and is known by a hash of
theirs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows import schema
from flows.layout import plan_key
from flows.order import Order
from flows.parquet import packing
from kernels.case import Backend, Case, Plan
from kernels.discovery import find
from kernels.errors import UsageError
from kernels.machine import Environment

_HASHED = ("case_id", "dims", "source_sha256", "reason")
_SHARES = b"plans"


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a sweep.

    Attributes:
        sha256: of the hashes of its shares.
        shares: backend to the order that a run on it has.
        hashes: backend to the hash of that order's plan.
        table: every cell.
    """

    sha256: str
    shares: Mapping[Backend, Order]
    hashes: Mapping[Backend, str]
    table: pa.Table

    @property
    def key(self) -> str:
        """Under which it is stored."""
        return plan_key(self.sha256)

    def content(self) -> bytes:
        """Write it out.

        Returns:
            A Parquet file: a row a cell, and in the footer what the shares were expanded from.
        """
        sink = io.BytesIO()
        pq.write_table(self.table, sink, **packing(self.table.schema))
        return sink.getvalue()


def settings(order: Order) -> str:
    """Write out what a plan is expanded from.

    Args:
        order: the order.

    Returns:
        The matrix, the filters, the sampling and the workers, as JSON.
    """
    found = {
        "matrix": {name: value for name, value in asdict(order.matrix).items() if name != "sampling"},
        "filters": asdict(order.filters),
        "sampling": order.sampling.to_json(),
        "workers": order.workers,
    }
    return json.dumps(found, sort_keys=True)


def plan_hash(order: Order) -> str:
    """Give the hash by which an order's plan is known.

    Args:
        order: the order.

    Returns:
        A sha256, in hexadecimal digits; what differs between machines without changing what is measured, such as the
        folder that holds a kernel, is not in it.
    """
    return _hash(settings(order), cells(order))


def cells(order: Order) -> pa.Table:
    """Lay out the cells of a plan.

    Args:
        order: the order.

    Returns:
        A row a cell, in the columns of ``schema.PLANS`` but ``plan_hash``; cases first.
    """
    skips = order.plan.skips
    cases = [*order.plan.cases, *(skip.case for skip in skips)]
    columns: dict[str, Sequence[Any]] = {
        "case_id": [case.id for case in cases],
        "kernel": [case.kernel for case in cases],
        "framework": [case.framework for case in cases],
        "mode": [case.mode for case in cases],
        "size": [case.size for case in cases],
        "dims": _dims(cases),
        "dtype": [case.dtype for case in cases],
        "derivative": [case.derivative for case in cases],
        "backend": [case.backend.value for case in cases],
        "source": [case.source for case in cases],
        "source_sha256": [case.source_sha256 for case in cases],
        "reason": [*[None] * len(order.plan.cases), *(skip.reason for skip in skips)],
    }
    names = [column for column in schema.PLANS if column.name in columns]
    return pa.table({column.name: pa.array(columns[column.name], column.type) for column in names})


def agree(order: Order, sha256: str | None) -> None:
    """See that whoever submits a run and whoever takes it mean the same cells.

    Args:
        order: as it was understood here.
        sha256: hash of the plan that the submitter has; None agrees with everything.

    Raises:
        UsageError: it is another.
    """
    found = plan_hash(order)
    if sha256 is None or sha256 == found:
        return
    here = Environment.here()
    raise UsageError(
        f"plan: matrix {order.matrix.name} gives plan {found[:12]} here, of {len(order.plan.cases)} cases, and "
        f"{sha256[:12]} where the run was submitted; here is jitmatrix {importlib.metadata.version('jitmatrix')}, "
        f"commit {here.commit or 'unknown'}, image {here.image or 'none'}: bring both to the same commit"
    )


def divide(order: Order) -> Planned:
    """Divide an order among the backends, each with the share that a run on it has.

    Args:
        order: the order of a sweep.

    Returns:
        The plan.
    """
    cases: dict[Backend, list[Any]] = {}
    skips: dict[Backend, list[Any]] = {}
    for case in order.plan.cases:
        cases.setdefault(case.backend, []).append(case)
    for skip in order.plan.skips:
        skips.setdefault(skip.case.backend, []).append(skip)
    shares, hashes, tables, texts = {}, {}, [], {}
    for backend in (each for each in Backend if each in cases or each in skips):
        plan = Plan(tuple(cases.get(backend, ())), tuple(skips.get(backend, ())))
        share = replace(order, filters=replace(order.filters, backend=(backend.value,)), plan=plan)
        table, text = cells(share), settings(share)
        shares[backend], hashes[backend], texts[backend.value] = share, _hash(text, table), text
        tables.append(table.add_column(0, "plan_hash", pa.array([hashes[backend]] * len(table), pa.string())))
    whole = _whole(hashes.values())
    footer = {
        b"schema_version": str(schema.VERSION).encode(),
        b"plan": settings(order).encode(),
        _SHARES: json.dumps(texts).encode(),
    }
    found = pa.concat_tables(tables).cast(schema.PLANS).replace_schema_metadata(footer)
    return Planned(whole, shares, hashes, found)


def unsound(key: str, content: bytes) -> str | None:
    """Look whether a stored plan is what its name says.

    Args:
        key: of the file.
        content: of the file.

    Returns:
        What is wrong with it; None where nothing is.
    """
    try:
        table = pq.read_table(pa.BufferReader(content))
        texts: dict[str, str] = json.loads(table.schema.metadata[_SHARES])
        backends = table["backend"].to_pylist()
        hashes = []
        for backend, text in texts.items():
            share = table.filter(pa.array([each == backend for each in backends]))
            hashes.append(_hash(text, share))
            if set(share["plan_hash"].to_pylist()) != {hashes[-1]}:
                return f"its cells of {backend} name another plan than theirs"
        if set(backends) - texts.keys():
            return "it has cells of a backend that it has no plan of"
        return None if plan_key(_whole(hashes)) == key else "it is not the plan that its name says"
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        return f"it is no plan ({' '.join(str(error).split())})"


def _dims(cases: Sequence[Case]) -> list[str]:
    known: dict[tuple[str, str | None, str], str] = {}
    found = []
    for case in cases:
        name = case.kernel, case.source, case.size
        if name not in known:
            known[name] = json.dumps(dict(find(case.kernel, case.source).sizes.get(case.size, {})))
        found.append(known[name])
    return found


def _hash(text: str, table: pa.Table) -> str:
    lines = zip(*(table[name].to_pylist() for name in _HASHED), strict=True)
    return hashlib.sha256(json.dumps([text, list(lines)]).encode()).hexdigest()


def _whole(hashes: Any) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
