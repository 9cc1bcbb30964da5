"""Plans: one hash for the same cells wherever they are expanded, another for any other; stored once, and sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flows.order import Order
from flows.plan import agree, divide, plan_hash, unsound
from flows.query import ask
from flows.storage import LocalRoot
from flows.verify import verify
from kernels.case import Backend
from kernels.errors import UsageError

MATRIX: dict[str, Any] = {
    "kernels": ["double", "dense"],
    "frameworks": ["numpy/eager", "jax/jit"],
    "sizes": [],
    "dtypes": ["float32"],
    "backends": ["cpu", "gpu"],
}
AXES = {
    "kernels": st.lists(st.sampled_from(["double", "dense", "sincos", "total"]), min_size=1, unique=True),
    "frameworks": st.lists(st.sampled_from(["numpy/eager", "jax/jit", "numba/njit"]), min_size=1, unique=True),
    "sizes": st.lists(st.sampled_from(["S", "M"]), unique=True),
    "dtypes": st.lists(st.sampled_from(["float32", "float64"]), min_size=1, unique=True),
    "backends": st.lists(st.sampled_from(["cpu", "gpu", "tpu"]), min_size=1, unique=True),
}


def order(matrix: dict[str, Any], **others: Any) -> Order:
    none = {"kernel": [], "framework": [], "size": [], "dtype": [], "backend": [], "derivative": []}
    sampling = dict.fromkeys(("rounds", "budget_s", "seed", "timeout_s", "min_sample_ms", "cold"))
    rest = {"results": "results", "workers": None, "programs": False}
    return Order.from_parameters({"matrix": matrix, **none, **sampling, **rest, **others})


@settings(max_examples=30, deadline=None)
@given(st.fixed_dictionaries(AXES))
def test_every_cell_is_in_one_share_and_each_share_is_what_its_worker_expands(matrix: dict[str, Any]) -> None:
    try:
        whole = order(matrix)
    except UsageError:
        assume(False)  # nothing of it can be measured
    planned = divide(whole)
    cells = {case.id for case in whole.plan.cases} | {skip.case.id for skip in whole.plan.skips}
    assert sorted(planned.table["case_id"].to_pylist()) == sorted(cells)
    assert [backend.value for backend in planned.shares] == [b.value for b in Backend if b.value in matrix["backends"]]
    for backend, share in planned.shares.items():
        if share.plan.cases:
            agree(Order.from_parameters(share.parameters()), planned.hashes[backend])
    assert unsound(planned.key, planned.content()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": {**MATRIX, "dtypes": ["float64"]}},
        {"matrix": {**MATRIX, "kernels": ["double"]}},
        {"rounds": 7},
        {"workers": 1},
        {"kernel": ["double"]},
    ],
)
def test_whatever_changes_what_is_measured_changes_the_hash(change: dict[str, Any]) -> None:
    assert plan_hash(order(change.pop("matrix", MATRIX), **change)) != plan_hash(order(MATRIX))


def test_a_worker_that_would_measure_something_else_is_told_so_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"^plan: matrix inline gives plan [0-9a-f]{12} here, of \d+ cases, and 0{12}"):
        agree(order(MATRIX), "0" * 64)


def test_a_stored_plan_can_be_asked_and_is_verified(tmp_path: Path) -> None:
    planned = divide(order(MATRIX))
    file = tmp_path / planned.key
    file.parent.mkdir()
    file.write_bytes(planned.content())
    root = LocalRoot(tmp_path)
    found = ask(root, "select backend, count(*) as cells, count(reason) as skipped from plans group by 1", {})
    cells = divide(order(MATRIX)).table
    for row in found.table.to_pylist():
        of_backend = [r for r in cells.to_pylist() if r["backend"] == row["backend"]]
        assert (row["cells"], row["skipped"]) == (len(of_backend), sum(r["reason"] is not None for r in of_backend))
    assert verify(root).problems == []
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    assert [(p.kind, p.key) for p in verify(root).problems] == [("damaged", planned.key)]


def test_a_stored_plan_whose_cells_name_another_plan_is_unsound() -> None:
    planned = divide(order(MATRIX))
    table = pq.read_table(pa.BufferReader(planned.content()))
    names = table["plan_hash"].to_pylist()
    forged = table.set_column(0, "plan_hash", pa.array(["0" * 64, *names[1:]], pa.string()))
    sink = pa.BufferOutputStream()
    pq.write_table(forged, sink)
    assert "name another plan than theirs" in (unsound(planned.key, sink.getvalue().to_pybytes()) or "")


def test_a_plan_that_was_cut_short_is_named_and_set_aside(tmp_path: Path) -> None:
    planned = divide(order(MATRIX))
    file = tmp_path / planned.key
    file.parent.mkdir()
    file.write_bytes(planned.content()[:200])
    answer = ask(LocalRoot(tmp_path), "select count(*) as cells from plans", {})
    assert answer.table.to_pylist() == [{"cells": 0}]
    assert list(answer.aside) == [planned.key]
