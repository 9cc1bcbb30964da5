"""Questions about stored results: what the views hold, what the ready questions answer, and what is set aside."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import schema, storage
from flows.layout import Manifest
from flows.query import Answer, ask, parameters
from flows.questions import questions
from flows.results import Run
from flows.s3 import S3Root
from flows.storage import LocalRoot
from flows.store import Store
from kernels.case import Case
from kernels.errors import UsageError
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from tests.flows.conftest import Command
from tests.flows.seaweed import Bucket
from tests.flows.stored import DAY, new_run, write_run
from tests.flows.test_holdings import compact, store

EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
NUMPY = Case("dense", "numpy", "eager", "M", "float32")
JAX = Case("dense", "jax", "jit", "M", "float32")
EAGER = Case("dense", "jax", "eager", "M", "float32")


def timed(phase: str, *ns: float, flags: dict[str, str] | None = None) -> Timing:
    """A timing of a round for each time, of three samples of two calls."""
    samples = tuple((round(2 * each),) * 3 for each in ns)
    return Timing(Phase(phase), samples, (2,) * len(ns), {**EVENTS, "compiles": len(ns)}, None, flags or {})


def measured(case: Case, *timings: Timing, status: Status = Status.OK, reason: str | None = None) -> Measurement:
    planned = modes()[f"{case.framework}/{case.mode}"].phases
    facts = {"roofline_share": 0.5} if timings else {}
    return Measurement(case, status, reason, planned, {each.phase: each for each in timings}, {}, facts, 3)


def write(root: Path, *measurements: Measurement, run: Run | None = None) -> Run:
    run = run or new_run()
    files = Store(root, run, None, print)
    for measurement in measurements:
        files.take(measurement)
    files.finish(list(measurements))
    return run


def rows(root: Path, text: str, **values: str) -> list[dict[str, Any]]:
    return found(root, text, **values).table.to_pylist()


def found(root: Path, text: str, **values: str) -> Answer:
    return ask(LocalRoot(root), text, values)


def one(root: Path, question: str, **values: str) -> dict[str, Any]:
    (row,) = rows(root, question, **values)
    return row


# --- the views


def test_the_views_have_the_columns_of_the_schema_and_the_day(tmp_path: Path) -> None:
    write_run(tmp_path)
    answer = found(tmp_path, "from timings").table
    assert answer.column_names == ["date", *schema.TIMINGS.names]
    assert answer.schema.field("date").type == pa.date32()
    assert set(answer["date"].to_pylist()) == {DAY.date()}
    assert found(tmp_path, "from runs").table.column_names == ["date", *schema.RUNS.names, "status"]
    assert found(tmp_path, "from latest").table.column_names == [*answer.column_names, "workers"]


@settings(max_examples=20, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.integers(1, 10**12), min_size=1, max_size=4), st.integers(1, 10**6)),
        max_size=4,
        min_size=1,
    )
)
def test_samples_are_unnested_by_round_per_call(
    rounds: list[tuple[list[int], int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("root")
    totals, calls = zip(*rounds, strict=True)
    steady = Timing(Phase.STEADY, tuple(map(tuple, totals)), calls, EVENTS, None, {})
    run = write(root, measured(NUMPY, steady))
    wanted = [
        (run.id, NUMPY.id, "steady", r, s, ns / n, ns, n)
        for r, (samples, n) in enumerate(rounds, 1)
        for s, ns in enumerate(samples, 1)
    ]
    query = "select * exclude (date) from samples order by round, sample"
    assert [tuple(row.values()) for row in rows(root, query)] == wanted


def test_latest_is_the_newest_complete_run_of_each_case_and_machine(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 30)), measured(JAX, timed("steady", 5)))
    newer = write(tmp_path, measured(NUMPY, timed("steady", 20)), run=new_run(DAY + timedelta(days=1)))
    write(tmp_path, measured(NUMPY, timed("steady", 10)), run=suspended(DAY + timedelta(days=2)))
    query = "select case_id, median_ns, run_id from latest where median_ns is not null order by 1"
    first, second = rows(tmp_path, query)
    assert (first["case_id"], first["median_ns"]) == (JAX.id, 5)
    assert (second["median_ns"], second["run_id"]) == (20, newer.id)


@pytest.mark.parametrize("status", [Status.UNAVAILABLE, Status.SKIPPED])
def test_a_run_that_could_not_try_a_case_hides_no_measurement_of_it(tmp_path: Path, status: Status) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 30)))
    write(tmp_path, measured(NUMPY, timed("steady", 20)), run=new_run(DAY + timedelta(days=1)))
    untried = [measured(case, status=status, reason="a reason") for case in (NUMPY, JAX)]
    write(tmp_path, *untried, run=new_run(DAY + timedelta(days=2)))
    told = {row["case_id"]: row for row in rows(tmp_path, "from latest where phase = 'steady'")}
    assert (told[NUMPY.id]["median_ns"], told[NUMPY.id]["status"]) == (20, "ok")
    assert told[JAX.id]["status"] == status.value
    (reason,) = rows(tmp_path, "failures")
    assert (reason["cases"], reason["still"]) == (2, 2)


def test_a_newer_failure_is_the_latest_state_of_a_case(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 30)))
    failed = measured(NUMPY, status=Status.FAILED, reason="a reason")
    write(tmp_path, failed, run=new_run(DAY + timedelta(days=1)))
    assert {row["status"] for row in rows(tmp_path, "from latest")} == {"failed"}


def test_cases_of_one_thread_are_not_compared_with_those_of_all(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 100)), measured(JAX, timed("steady", 50)))
    pinned = new_run(DAY + timedelta(days=1))
    pinned.order = replace(pinned.order, workers=2)
    write(tmp_path, measured(NUMPY, timed("steady", 400)), measured(EAGER, timed("steady", 100)), run=pinned)
    told = {row["name"]: row for row in rows(tmp_path, "speed_up")}
    assert (told["jax/jit"]["times_faster"], told["jax/jit"]["workers"]) == (2, None)
    assert (told["jax/eager"]["times_faster"], told["jax/eager"]["workers"]) == (4, 2)
    query = "select workers, median_ns from latest where case_id = $case and phase = 'steady' order by all"
    assert [tuple(row.values()) for row in rows(tmp_path, query, case=NUMPY.id)] == [(2, 400), (None, 100)]


def suspended(started_at: Any) -> Run:
    run = new_run(started_at)
    run.complete = False
    return run


def test_a_run_without_a_marker_is_shown_as_incomplete(tmp_path: Path) -> None:
    whole, cut = write_run(tmp_path), write_run(tmp_path, suspended=True)
    told = {row["run_id"]: row for row in rows(tmp_path, "from runs")}
    assert (told[whole.id]["complete"], told[whole.id]["status"]) == (True, "complete")
    assert (told[cut.id]["complete"], told[cut.id]["status"]) == (False, "incomplete")
    assert {row["run_id"] for row in rows(tmp_path, "from timings")} == {whole.id, cut.id}
    assert {row["run_id"] for row in rows(tmp_path, "from latest")} == {whole.id}


def test_a_run_that_was_killed_before_its_row_is_shown_as_its_timings_tell(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    for path in (tmp_path / "runs").rglob("*.*"):
        path.unlink()
    row = one(tmp_path, "from runs")
    assert (row["run_id"], row["status"], row["complete"]) == (run.id, "incomplete", False)
    assert (row["started_at"], row["machine"]) == (DAY, run.machine.fingerprint)


def test_no_results_are_empty_views(tmp_path: Path) -> None:
    for view in ("timings", "runs", "samples", "latest", *questions()):
        query = f"from {view}" if view not in questions() else view
        assert rows(tmp_path, query) == []


def test_columns_of_other_versions_are_null_or_shown(tmp_path: Path) -> None:
    old, new = write_run(tmp_path), write_run(tmp_path)
    rewrite(tmp_path, old, lambda table: table.drop_columns(["dtype", "cold"]))
    rewrite(tmp_path, new, lambda table: table.append_column("colour", pa.array(["red"] * table.num_rows)), version=99)
    query = "select distinct run_id, dtype is null as no_dtype, colour from timings order by run_id"
    told = [tuple(row.values()) for row in rows(tmp_path, query)]
    assert (old.id, True, None) in told
    assert (new.id, False, "red") in told
    for question in questions():
        found(tmp_path, question)


def rewrite(root: Path, run: Run, change: Any, version: int | None = None) -> None:
    """Change a run's timings, and its marker with them: as a writer of another version would have written them."""
    marker = next(root.glob(f"runs/*/_{run.id}.json"))
    content = json.loads(marker.read_text())
    for entry in content["files"]:
        if entry["key"].startswith("timings/"):
            path = root / entry["key"]
            pq.write_table(change(pq.read_table(path, partitioning=None)), path)
            data = path.read_bytes()
            entry |= {"nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["schema_version"] = version or content["schema_version"]
    marker.write_text(json.dumps(content))


def test_a_filter_by_date_opens_no_file_of_another_day(tmp_path: Path) -> None:
    write_run(tmp_path)
    other = write_run(tmp_path, new_run(DAY + timedelta(days=1)))
    path = next(tmp_path.glob(f"timings/*/{other.id}-*.parquet"))
    path.write_bytes(b"x" * path.stat().st_size)
    answer = found(tmp_path, f"from timings where date = '{DAY:%Y-%m-%d}'")
    assert answer.table.num_rows > 0
    # Nobody has looked into the file, and so nobody has seen that it is damaged.
    assert answer.aside == {}
    assert list(found(tmp_path, "from timings").aside) == [path.relative_to(tmp_path).as_posix()]


# --- what is set aside


@pytest.mark.parametrize("fault", ["truncated", "empty", "overwritten", "other columns", "removed"])
def test_a_damaged_file_of_a_run_is_named_and_the_others_are_read(tmp_path: Path, fault: str) -> None:
    whole, hurt = write_run(tmp_path), write_run(tmp_path)
    path = next(tmp_path.glob(f"timings/*/{hurt.id}-*.parquet"))
    content = path.read_bytes()
    if fault == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "overwritten":  # in its size: neither name nor size tells
        path.write_bytes(b"PAR1" + b"\x55" * (len(content) - 8) + b"PAR1")
    elif fault == "other columns":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.unlink()
    answer = found(tmp_path, "select distinct run_id from timings")
    assert answer.table["run_id"].to_pylist() == [whole.id]
    assert list(answer.aside) == [path.relative_to(tmp_path).as_posix()]


@pytest.mark.parametrize("content", ["truncated", "other columns", "other types"])
def test_what_carries_a_run_s_name_without_a_marker_is_looked_into(tmp_path: Path, content: str) -> None:
    whole = write_run(tmp_path)
    cut = write_run(tmp_path, suspended=True)
    path = next(path for path in tmp_path.glob(f"timings/*/{cut.id}-*.parquet") if "partial" not in path.name)
    if content == "truncated":
        path.write_bytes(path.read_bytes()[:-4])
    elif content == "other columns":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        pq.write_table(pa.table({"run_id": ["x"], "case_id": [1], "phase": ["steady"]}), path)
    answer = found(tmp_path, "select distinct run_id from timings")
    assert answer.table["run_id"].to_pylist() == [whole.id]
    assert list(answer.aside) == [path.relative_to(tmp_path).as_posix()]


@dataclass(frozen=True)
class Overtaken(LocalRoot):
    """A folder in which a compaction ends, and removes what it replaced, between a listing and the query."""

    manifest: list[Manifest] = field(default_factory=list)

    def filesystem(self) -> tuple[Any, str]:
        if self.manifest:
            made = self.manifest.pop()
            store(self.path, made)
            for key in made.replaces:
                (self.path / key).unlink()
        return super().filesystem()


def test_a_query_that_a_compaction_overtakes_sees_each_row_once(tmp_path: Path) -> None:
    runs = [write_run(tmp_path).id for _ in range(2)]
    query = "from samples order by all"
    before = found(tmp_path, query).table
    after = ask(Overtaken(tmp_path, [compact(tmp_path, runs)]), query, {})
    assert after.table.equals(before)
    assert after.aside == {}


def test_a_damaged_compact_file_leaves_its_rows_to_the_files_that_it_replaced(tmp_path: Path) -> None:
    runs = [write_run(tmp_path).id for _ in range(2)]
    query = "from samples order by all"
    before = found(tmp_path, query).table
    made = compact(tmp_path, runs)
    store(tmp_path, made)
    assert found(tmp_path, query).table.equals(before)
    path = tmp_path / made.files[0].key
    path.write_bytes(b"x" * path.stat().st_size)
    answer = found(tmp_path, query)
    assert answer.table.equals(before)
    assert made.files[0].key in answer.aside


# --- the ready questions


def test_every_question_says_what_it_answers_and_that_flagged_rows_are_not_ranked(tmp_path: Path) -> None:
    write_run(tmp_path)
    for question in questions().values():
        assert question.title
        ranks = "rank()" in question.sql or question.name in {"speed_up_mean", "break_even", "scaling"}
        assert ranks == ("lagged rows are" in " ".join(question.sql.replace("-- ", "").split())), question.name
        columns = set(found(tmp_path, question.name).table.column_names)
        assert set(question.columns) <= columns, question.name


def test_speed_up_is_baseline_over_case(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 100, 100)), measured(JAX, timed("steady", 25, 25)))
    row = one(tmp_path, "speed_up")
    assert (row["name"], row["times_faster"], row["rank"], row["same_run"], row["note"]) == ("jax/jit", 4, 1, True, "")
    other = one(tmp_path, "speed_up", baseline="jax/jit")
    assert (other["name"], other["times_faster"]) == ("numpy/eager", 0.25)


def test_a_flagged_row_and_a_failed_one_are_listed_and_not_ranked(tmp_path: Path) -> None:
    other = Case("dense", "numba", "njit", "M", "float32")
    write(
        tmp_path,
        measured(NUMPY, timed("steady", 100)),
        measured(EAGER, timed("steady", 50)),
        measured(JAX, timed("steady", 1, flags={"memoised": "why"})),
        measured(other, status=Status.FAILED, reason="a reason"),
    )
    told = {row["name"]: row for row in rows(tmp_path, "speed_up")}
    assert (told["jax/eager"]["rank"], told["jax/eager"]["times_faster"]) == (1, 2)
    assert (told["jax/jit"]["rank"], told["jax/jit"]["times_faster"]) == (None, None)
    assert "steady: memoised" in told["jax/jit"]["note"]
    assert (told["numba/njit"]["rank"], told["numba/njit"]["note"]) == (None, "failed: a reason")
    for question in questions():
        if question not in {"runs", "speed_up_mean", "failures", "scaling", "phases"}:
            told = {row.get("name") or row["case_id"]: row for row in rows(tmp_path, question)}
            assert "failed: a reason" in (told.get("numba/njit") or told[other.id])["note"]


def test_what_has_no_baseline_says_so(tmp_path: Path) -> None:
    write(tmp_path, measured(JAX, timed("steady", 25)))
    row = one(tmp_path, "speed_up")
    assert (row["times_faster"], row["note"]) == (None, "no numpy/eager of this cell")
    write(tmp_path, measured(NUMPY, timed("steady", 25, flags={"noisy": "why"})))
    assert one(tmp_path, "speed_up")["note"] == "numpy/eager is not ranked: steady: noisy"


def test_cases_of_two_machines_dtypes_or_kinds_of_inputs_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 100)))
    for change in ({"dtype": "float64"}, {"size": "L"}, {"derivative": 1}, {"kernel": "sincos"}):
        fields = {**JAX.to_json(), **change}
        write(tmp_path, measured(Case.from_json(fields), timed("steady", 25)))
    assert {row["times_faster"] for row in rows(tmp_path, "speed_up")} == {None}


def test_the_mean_of_ratios_is_geometric_over_all_cells(tmp_path: Path) -> None:
    for size, ns in (("S", 1), ("M", 100)):
        sized = {"size": size}
        write(
            tmp_path,
            measured(Case.from_json(NUMPY.to_json() | sized), timed("steady", 10)),
            measured(Case.from_json(JAX.to_json() | sized), timed("steady", ns)),
        )
    row = one(tmp_path, "speed_up_mean")
    assert math.isclose(row["geometric_mean"], 1.0)
    assert (row["least"], row["most"], row["compared"], row["not_compared"]) == (0.1, 10, 2, 0)


def test_break_even_counts_calls_against_the_framework_s_own_eager_mode(tmp_path: Path) -> None:
    write(
        tmp_path,
        measured(NUMPY, timed("steady", 3)),
        measured(EAGER, timed("steady", 30)),
        measured(JAX, timed("first_call", 1010), timed("steady", 10)),
        measured(Case("dense", "numba", "njit", "M", "float32"), timed("first_call", 1010), timed("steady", 10)),
    )
    told = {row["name"]: row for row in rows(tmp_path, "break_even")}
    assert (told["jax/jit"]["against"], told["jax/jit"]["calls"]) == ("jax/eager", 50)
    assert (told["numba/njit"]["against"], told["numba/njit"]["calls"]) == ("numpy/eager", None)
    assert told["numba/njit"]["note"].startswith("never")


@pytest.mark.parametrize(
    ("first", "note"),
    [
        ([timed("first_call", 1010, flags={"recompiled": "why"})], "first_call: recompiled"),
        ([], "first call was not timed"),
    ],
)
def test_nothing_breaks_even_without_a_first_call(tmp_path: Path, first: list[Timing], note: str) -> None:
    write(tmp_path, measured(EAGER, timed("steady", 30)), measured(JAX, *first, timed("steady", 10)))
    row = one(tmp_path, "break_even")
    assert (row["calls"], row["least"], row["most"], row["note"]) == (None, None, None, note)


def test_what_steady_is_not_timed_for_is_said_of_the_case_and_of_what_it_is_held_against(tmp_path: Path) -> None:
    write(
        tmp_path, measured(EAGER, timed("pipelined", 30)), measured(JAX, timed("first_call", 99), timed("steady", 10))
    )
    assert one(tmp_path, "break_even")["note"] == "jax/eager is not ranked: steady was not timed"
    told = {row["name"]: row["note"] for row in rows(tmp_path, "speed_up", baseline="jax/jit")}
    assert told == {"jax/eager": "steady was not timed"}


def test_a_note_of_a_comparison_is_of_the_phases_that_it_compares(tmp_path: Path) -> None:
    flagged = timed("compile", 5, flags={"noisy": "why"})
    write(
        tmp_path,
        measured(NUMPY, timed("steady", 30)),
        measured(JAX, flagged, timed("first_call", 60), timed("steady", 10)),
    )
    for question in ("speed_up", "break_even"):
        assert one(tmp_path, question)["note"] == ""
    told = {row["name"]: row["note"] for row in rows(tmp_path, "roofline")}
    assert told["jax/jit"] == ""
    assert one(tmp_path, "compile_cost")["note"] == "compile: noisy"


def test_compile_cost_is_in_calls(tmp_path: Path) -> None:
    write(tmp_path, measured(JAX, timed("compile", 500), timed("first_call", 900), timed("steady", 10)))
    row = one(tmp_path, "compile_cost")
    assert (row["compile_in_calls"], row["first_call_in_calls"], row["rank"]) == (50, 90, 1)
    assert row["trace_ns"] is None


def test_retrace_is_in_calls_with_its_compilations(tmp_path: Path) -> None:
    write(tmp_path, measured(JAX, timed("first_call", 1000), timed("retrace", 500, 500), timed("steady", 10)))
    row = one(tmp_path, "retrace")
    assert (row["retrace_in_calls"], row["of_first_call"], row["compiles_per_round"]) == (50, 0.5, 1)


def test_the_scaling_exponent_is_the_slope_of_the_logarithms(tmp_path: Path) -> None:
    for size, ns in (("S", 10), ("M", 80), ("L", 640)):
        write(tmp_path, measured(Case("matmul", "numpy", "eager", size, "float32"), timed("steady", ns)))
    row = one(tmp_path, "scaling", over="n")
    dims = [json.loads(r["dims"])["n"] for r in rows(tmp_path, "select distinct dims from timings")]
    slope = math.log(640 / 10) / math.log(max(dims) / min(dims))
    assert row["sizes"] == 3
    assert row["exponent"] == pytest.approx(slope, rel=0.2)
    assert one(tmp_path, "scaling")["exponent"] == pytest.approx(row["exponent"] / 3, rel=0.01)
    assert "colour is not known" in one(tmp_path, "scaling", over="colour")["note"]


def test_the_share_of_the_roofline_is_of_the_steady_call(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 10)), measured(JAX, timed("steady", 20)))
    told = {row["name"]: row for row in rows(tmp_path, "roofline")}
    assert told["jax/jit"]["share"] == 0.5


def test_failures_are_counted_by_reason_over_all_runs(tmp_path: Path) -> None:
    for day, reason in enumerate(("one", "one", "two")):
        failed = measured(JAX, status=Status.FAILED, reason=reason)
        write(tmp_path, failed, run=new_run(DAY + timedelta(days=day)))
    told = {row["reason"]: row for row in rows(tmp_path, "failures")}
    assert (told["one"]["cases"], told["one"]["runs"], told["one"]["still"]) == (1, 2, 0)
    assert (told["two"]["runs"], told["two"]["still"], told["two"]["example"]) == (1, 1, JAX.id)


def test_the_slowest_compile_stands_first(tmp_path: Path) -> None:
    quick = Case.from_json(JAX.to_json() | {"size": "S"})
    write(tmp_path, measured(quick, timed("compile", 5)), measured(JAX, timed("compile", 50)))
    assert [(row["rank"], row["case_id"]) for row in rows(tmp_path, "slowest_compile")] == [(1, JAX.id), (2, quick.id)]


def test_the_spread_is_that_of_the_rounds(tmp_path: Path) -> None:
    write(tmp_path, measured(NUMPY, timed("steady", 10, 20, 30)), measured(JAX, timed("steady", 10, 10)))
    told = [(row["rank"], row["case_id"], row["spread"]) for row in rows(tmp_path, "process_spread")]
    assert told == [(1, NUMPY.id, 3), (2, JAX.id, 1)]


def test_the_phases_of_a_case_stand_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, measured(JAX, timed("steady", 10)), measured(NUMPY, timed("steady", 10)))
    told = rows(tmp_path, "phases", case="dense-jax-%")
    assert [row["phase"] for row in told] == [phase.value for phase in modes()["jax/jit"].phases]
    assert {row["case_id"] for row in told} == {JAX.id}
    assert told[0]["note"] == "it was not timed"


# --- bad input


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("selct 1", 'syntax error at or near "selct" (line 1, column 1)'),
        ("select 1,\n  foo from timings", '"foo" not found'),
        ("select 1,\n  foo from timings", "(line 2, column 3)"),
        ("select 'é', foo", "(line 1, column 13)"),
        ("from nowhere", "nowhere does not exist"),
        ("speedup", "did you mean speed_up?"),
        ("select 'a'::int from timings", "Could not convert string 'a'"),
        ("delete from runs", "DELETE does not only read"),
        ("copy timings to 'x.csv'", "COPY does not only read"),
        ("select 1; select 2", "2 statements"),
        ("-- nothing", "0 statements"),
        ("select $x", "--set x="),
        ("from 'timings.parquet'", "disabled by configuration"),
        ("from read_csv('x.csv')", "disabled by configuration"),
        ("select * from root", "root does not exist"),
        ("attach 'x.db'", "ATTACH does not only read"),
        ("explain analyze copy (select 1) to 'x.csv'", "disabled by configuration"),
    ],
)
def test_a_mistake_is_one_line_in_duckdb_s_words_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "results")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        ask(LocalRoot(tmp_path / "results"), text, {})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_parameter_or_baseline_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown baseline 'nump/eager' .*did you mean numpy/eager"):
        ask(LocalRoot(tmp_path), "speed_up", {"baseline": "nump/eager"})
    with pytest.raises(UsageError, match=r"unknown parameter 'baselin'.*did you mean baseline"):
        found(tmp_path, "speed_up", baselin="jax/jit")
    with pytest.raises(UsageError, match="write name=value"):
        parameters(["baseline"])


def test_a_parameter_is_a_value_and_never_sql(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert rows(tmp_path, "select $x as x", x="1'; drop table y; --") == [{"x": "1'; drop table y; --"}]


@pytest.mark.parametrize("command", [("query", "runs"), ("verify",)])
def test_a_folder_that_is_not_there_is_refused(jitmatrix: Command, command: tuple[str, ...]) -> None:
    done = jitmatrix(*command, "--results", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("jitmatrix: --results nowhere: there is no such folder; name the one")


# --- the command


def test_the_command_names_what_is_set_aside_and_answers(jitmatrix: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "results")
    foreign = tmp_path / f"results/timings/date={DAY:%Y-%m-%d}/mine.parquet"
    foreign.write_text("")
    done = jitmatrix("query", "select distinct run_id from timings", "--format", "csv")
    assert done.returncode == 0
    assert done.stdout == f"run_id\n{run.id}\n"
    assert done.stderr.startswith(f"jitmatrix: set aside timings/date={DAY:%Y-%m-%d}/mine.parquet: foreign")


def test_the_command_lists_the_questions_and_refuses_a_mistake(jitmatrix: Command, tmp_path: Path) -> None:
    done = jitmatrix("query")
    assert done.returncode == 0
    assert all(name in done.stdout for name in questions())
    (tmp_path / "results").mkdir()
    done = jitmatrix("query", "selct 1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "jitmatrix: query: Parser Error" in done.stderr


# --- S3


@pytest.mark.timeout(120)
def test_s3_answers_as_the_folder_does(tmp_path: Path, bucket: Bucket) -> None:
    write_run(tmp_path)
    write_run(tmp_path, suspended=True)
    foreign = tmp_path / f"timings/date={DAY:%Y-%m-%d}/mine.parquet"
    foreign.write_text("foreign")
    for path in tmp_path.glob("*/date=*/*"):
        bucket.put(f"some/prefix/{path.relative_to(tmp_path).as_posix()}", path.read_bytes())
    root = S3Root(bucket.name, "some/prefix")
    for question in ("from runs order by run_id", "from samples order by all", "phases", "failures"):
        local, remote = found(tmp_path, question), ask(root, question, {})
        assert remote.table.equals(local.table)
        assert remote.aside == local.aside != {}


@pytest.mark.timeout(120)
def test_a_damaged_object_is_named_and_the_others_are_read(tmp_path: Path, bucket: Bucket) -> None:
    runs = [write_run(tmp_path) for _ in range(2)]
    for path in tmp_path.glob("*/date=*/*"):
        content = path.read_bytes()
        hurt = path.parts[-3] == "timings" and path.name.startswith(runs[1].id)
        bucket.put(path.relative_to(tmp_path).as_posix(), b"x" * len(content) if hurt else content)
    answer = ask(S3Root(bucket.name, ""), "select distinct run_id from timings", {})
    assert answer.table["run_id"].to_pylist() == [runs[0].id]
    assert "damaged" in next(iter(answer.aside.values()))


def test_dates_are_days(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert rows(tmp_path, "select distinct date from timings") == [{"date": DAY.date()}]


def test_a_folder_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The administrator may write everywhere: what the system answers is put in place of it."""
    write_run(tmp_path)
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    with pytest.raises(UsageError, match="may not be written to"):
        storage.root(str(tmp_path))
    assert ask(storage.root(str(tmp_path), to_read=True), "from runs", {}).table.num_rows == 1
