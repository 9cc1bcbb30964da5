"""What no machine took has rows all the same: once, without a machine, and in the way of no measurement."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows import untaken
from flows.order import Order
from flows.plan import divide
from flows.query import ask
from flows.references import resolve
from flows.results import Run, uuid7
from flows.storage import LocalRoot
from flows.store import Store
from kernels.case import Backend
from kernels.errors import UsageError
from kernels.measurement import Measurement, Status
from kernels.phase import Phase
from kernels.selection import Filters

REASON = "bench/gpu: no worker took it in 600 s"


def share(root: Path) -> Order:
    """Give the share of gpu, in which NumPy's cells are skipped."""
    filters = Filters(kernel=("double",), framework=("numpy", "jax/jit"), size=("S",), backend=("cpu", "gpu"))
    return divide(Order.of("smoke", filters, {}, str(root))).shares[Backend.GPU]


def record(order: Order, run_id: str, *, failed: bool = False) -> list[str]:
    notes: list[str] = []
    untaken.record(order, run_id, REASON, failed=failed, note=notes.append)
    return notes


def measure(order: Order, started_at: datetime) -> Run:
    """Store a run of a machine that measured the share."""
    run = Run(order, None, started_at=started_at, complete=True)
    store = Store(order.root.path, run, None, print) if isinstance(order.root, LocalRoot) else None
    assert store is not None
    found = [Measurement(case, Status.OK, None, (Phase.STEADY,), {}, {}, {}, 1) for case in order.plan.cases]
    for measurement in found:
        store.take(measurement)
    store.finish(found)
    return run


@pytest.mark.parametrize(("failed", "term"), [(False, "skipped"), (True, "failed")])
def test_every_cell_has_rows_of_a_complete_run_that_names_no_machine(tmp_path: Path, failed: bool, term: str) -> None:
    order, run_id = share(tmp_path), str(uuid7())
    assert order.plan.cases and order.plan.skips
    assert record(order, run_id, failed=failed) == []
    root = LocalRoot(tmp_path)
    (row,) = ask(root, "from runs", {}).table.to_pylist()
    assert (row["run_id"], row["status"], row["machine"], row["image"]) == (run_id, "complete", None, None)
    assert row["planned"] == row["ok"] + row["failed"] + row["skipped"] == len(order.plan.cases) + len(order.plan.skips)
    assert row[term] >= len(order.plan.cases)
    told = ask(root, "select distinct case_id, status, reason, machine from timings", {}).table.to_pylist()
    assert {each["case_id"] for each in told if each["status"] == "unavailable"} == {c.id for c in order.plan.cases}
    assert {each["reason"] for each in told if each["status"] == "unavailable"} == {REASON}
    assert {each["case_id"] for each in told if each["status"] == "skipped"} == {s.case.id for s in order.plan.skips}
    assert {each["machine"] for each in told} == {None}


def test_what_is_stored_once_is_not_stored_again(tmp_path: Path) -> None:
    order, run_id = share(tmp_path), str(uuid7())
    record(order, run_id)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    record(order, run_id)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_latest_run_of_a_backend_is_one_that_a_machine_took(tmp_path: Path) -> None:
    order = share(tmp_path)
    record(order, str(uuid7()))
    root = LocalRoot(tmp_path)
    with pytest.raises(UsageError, match="has 0 complete runs of gpu"):
        resolve(root, "latest", "gpu")
    run = measure(order, datetime.now(UTC) - timedelta(days=1))
    assert resolve(root, "latest", "gpu") == [run.id]


def test_once_a_machine_has_had_a_case_that_none_took_it_is_told_as_over(tmp_path: Path) -> None:
    order = share(tmp_path)
    record(order, str(uuid7()))
    root = LocalRoot(tmp_path)

    def still() -> int:
        (row,) = (each for each in ask(root, "failures", {}).table.to_pylist() if each["status"] == "unavailable")
        found: int = row["still"]
        return found

    def latest() -> set[str]:
        query = "select distinct status from latest where status <> 'skipped'"
        return {row["status"] for row in ask(root, query, {}).table.to_pylist()}

    assert (still(), latest()) == (len(order.plan.cases), {"unavailable"})
    measure(order, datetime.now(UTC) + timedelta(minutes=1))
    assert (still(), latest()) == (0, {"ok"})


def test_a_case_that_was_measured_before_stays_the_latest_when_none_takes_it(tmp_path: Path) -> None:
    order = share(tmp_path)
    run = measure(replace(order), datetime.now(UTC) - timedelta(days=1))
    record(order, str(uuid7()))
    query = "select distinct run_id from latest where status <> 'skipped'"
    assert ask(LocalRoot(tmp_path), query, {}).table.to_pylist() == [{"run_id": run.id}]
