"""Rows and files: one schema, nothing that is not a number, whole or not there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import schema
from flows.order import Order
from flows.results import Run, case_variables, counts, rows, table, uuid7
from flows.store import Store
from kernels.case import Backend, Case
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.selection import Filters

EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)

rounds = st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=5), min_size=1, max_size=4)


@st.composite
def timings(draw: st.DrawFn, phase: Phase) -> Timing:
    samples = tuple(tuple(round_) for round_ in draw(rounds))
    inner = tuple(draw(st.integers(1, 10**6)) for _ in samples)
    flags = draw(st.dictionaries(st.sampled_from(["noisy", "memoised"]), st.text(max_size=20), max_size=2))
    return Timing(phase, samples, inner, EVENTS, None, flags)


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    mode = modes()[draw(st.sampled_from(sorted(modes())))]
    case = Case(draw(st.sampled_from(["double", "total"])), mode.framework, mode.name, "S", "float64")
    planned = mode.adapter.phases(mode.name, Backend.CPU)
    timed = draw(st.sets(st.sampled_from(planned)))
    return Measurement(
        case=case,
        status=draw(st.sampled_from(Status)),
        reason=draw(st.none() | st.text(max_size=40)),
        planned=planned,
        timings={phase: draw(timings(phase)) for phase in planned if phase in timed},
        flags={},
        facts={"warmup_calls": 3, "note": draw(st.text(max_size=5))},
        rounds=1,
    )


def write(root: Path, run: Run, measured: list[Measurement]) -> list[Path]:
    """Write a whole run, as a flow does that is never interrupted."""
    store = Store(root, run, None, print)
    for measurement in measured:
        store.take(measurement)
    return store.finish(measured)


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(Order.of("smoke", Filters(), {}, "results"), "jitmatrix bench --matrix smoke")


@given(measured=st.lists(measurements(), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_measurement_has_a_row_for_each_planned_phase_and_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, run: Run, measured: list[Measurement]
) -> None:
    root = tmp_path_factory.mktemp("root")
    timings_file, runs_file = write(root, replace(run, id=str(uuid7())), measured)
    stored = pq.read_table(timings_file)
    assert stored.schema.equals(schema.TIMINGS)
    assert pq.read_table(runs_file).schema.equals(schema.RUNS)
    assert stored.num_rows == sum(len(m.planned) for m in measured)
    # By phase, and in each in the order of measuring.
    wanted = sorted(((m, p) for m in measured for p in m.planned), key=lambda pair: pair[1].value)
    samples = [[list(r) for r in m.timings[p].samples] if p in m.timings else None for m, p in wanted]
    assert stored["samples"].to_pylist() == samples
    assert stored["reason"].to_pylist() == [m.reason for m, _ in wanted]
    totals = counts(measured, Filters())
    assert totals["planned"] == totals["ok"] + totals["failed"] + totals["skipped"] == len(measured)


def test_what_is_unavailable_fails_a_run_only_where_it_was_asked_for_by_name() -> None:
    case = Case("double", "numba", "njit", "S", "float64")
    row = Measurement(case, Status.UNAVAILABLE, "numba is not installed", (), {}, {}, {}, 0)
    assert counts([row], Filters()) == {"planned": 1, "ok": 0, "failed": 0, "skipped": 1}
    assert counts([row], Filters(framework=("numba",))) == {"planned": 1, "ok": 0, "failed": 1, "skipped": 0}


def test_the_variables_of_the_cases_are_those_that_their_processes_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    variables = case_variables(workers=2)
    assert variables["OMP_NUM_THREADS"] == "1"
    assert variables["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert not {"JAX_ENABLE_X64", "AWS_SECRET_ACCESS_KEY"} & variables.keys()


def test_duckdb_and_pandas_read_the_same_rows(tmp_path: Path, run: Run) -> None:
    case = Case("double", "numpy", "eager", "S", "float64")
    timing = Timing(Phase.STEADY, ((100, 120), (90, 110)), (10, 10), EVENTS, None, {})
    measured = Measurement(case, Status.OK, None, (Phase.STEADY,), {Phase.STEADY: timing}, {}, {}, 2)
    write(tmp_path, run, [measured])
    (by_duckdb,) = duckdb.sql(f"select median_ns, samples from '{tmp_path}/timings/*/*.parquet'").fetchall()
    by_pandas = pd.read_parquet(tmp_path / "timings").iloc[0]
    assert by_duckdb == (10.5, [[100, 120], [90, 110]])
    assert by_pandas.median_ns == 10.5


def test_what_is_not_a_number_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="what is not known is null"):
        table([{"case_id": "a", "median_ns": float("nan")}], schema.TIMINGS, run)


def test_facts_that_are_not_finite_are_null_in_their_json(run: Run) -> None:
    case = Case("double", "numpy", "eager", "S", "float64")
    facts = {"error": float("nan"), "worst": [float("inf"), 1.5]}
    (row,) = rows(run, Measurement(case, Status.OK, None, (Phase.STEADY,), {}, {}, facts, 1))
    assert json.loads(row["facts"], parse_constant=pytest.fail) == {"error": None, "worst": [None, 1.5]}


def test_what_is_no_column_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="speed is not a column"):
        table([{"speed": 1.0}], schema.TIMINGS, run)


def test_every_column_is_described_nullable_and_times_are_utc() -> None:
    for columns in (schema.TIMINGS, schema.RUNS):
        assert all(field.metadata[b"description"] for field in columns)
        assert all(field.nullable for field in columns)
        assert {str(f.type) for f in columns if "timestamp" in str(f.type)} == {"timestamp[us, tz=UTC]"}


def test_the_footer_names_schema_run_and_commit(tmp_path: Path, run: Run) -> None:
    skipped = Measurement(Case("double", "numpy", "eager", "S", "float64"), Status.SKIPPED, "why", (), {}, {}, {}, 0)
    for path in write(tmp_path, run, [skipped]):
        footer = pq.read_schema(path).metadata
        assert footer[b"schema_version"] == str(schema.VERSION).encode()
        assert footer[b"run_id"] == run.id.encode()
        assert b"commit" in footer


def test_the_run_row_repeats_the_run(run: Run) -> None:
    row = run.row([])
    plan = json.loads(row["plan"])
    assert plan["matrix"]["kernels"] == list(run.order.matrix.kernels)
    assert plan["sampling"]["rounds"] == run.order.sampling.rounds
    assert row["command"].startswith("jitmatrix bench --matrix smoke")


def test_ids_are_version_7_and_ordered_by_time() -> None:
    ids = [uuid7() for _ in range(50)]
    assert {i.version for i in ids} == {7}
    assert {i.variant for i in ids} == {"specified in RFC 4122"}
    stamps = [i.int >> 80 for i in ids]
    assert stamps == sorted(stamps)


def test_the_same_moment_and_name_have_the_same_id() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    found = uuid7(moment, "cpu")
    assert found == uuid7(moment, "cpu")
    assert found != uuid7(moment, "gpu")
    assert (found.version, found.int >> 80) == (7, 1_767_323_045_678)


def test_steady_alone_says_what_share_of_the_roofline_it_reached(run: Run) -> None:
    case = Case("double", "numpy", "eager", "S", "float64")
    both = {p: Timing(p, ((100,),), (1,), EVENTS, None, {}) for p in (Phase.STEADY, Phase.FIRST_CALL)}
    measured = Measurement(case, Status.OK, None, tuple(both), both, {}, {"roofline_share": 0.5}, 1)
    assert {row["phase"]: row["roofline_share"] for row in rows(run, measured)} == {"steady": 0.5, "first_call": None}


@pytest.mark.parametrize(("order", "known"), [(0, (True, True)), (1, (True, False)), (2, (False, False))])
def test_a_derivative_has_no_more_of_the_declared_work_than_is_known(
    run: Run, order: int, known: tuple[bool, bool]
) -> None:
    case = Case("total", "jax", "jit", "S", "float64", order)
    row = Measurement(case, Status.OK, None, (Phase.STEADY,), {}, {}, {}, 1)
    (stored,) = rows(run, row)
    assert stored["derivative"] == order
    assert (stored["work_operations"] is not None, stored["work_nbytes"] is not None) == known
