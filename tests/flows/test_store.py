"""The files of a run: each row in one of them once, whatever the disk or a row does."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from flows import durable
from flows.durable import file_sha256
from flows.journal import Journal, place
from flows.order import Order
from flows.results import Run
from flows.store import Store
from kernels.case import Case
from kernels.measurement import Measurement, Status
from kernels.phase import Phase
from kernels.selection import Filters

CASES = [Case("double", "numpy", "eager", size, "float64") for size in ("S", "M", "L")]
OK = [Measurement(case, Status.OK, None, (Phase.STEADY,), {}, {}, {}, 1) for case in CASES]


@pytest.fixture
def run() -> Run:
    return Run(Order.of("smoke", Filters(), {}, "results"), None)


def stored(root: Path) -> list[tuple[str, str, str | None]]:
    query = f"select case_id, status, reason from '{root}/timings/*/*.parquet' order by all"
    return duckdb.sql(query).fetchall()


def test_a_row_that_no_column_can_hold_is_a_failure_and_costs_no_other(tmp_path: Path, run: Run) -> None:
    store = Store(tmp_path, run, None, print)
    bad = replace(OK[1], facts={"cpu_share": float("nan")})
    taken = [store.take(measurement) for measurement in (OK[0], bad, OK[2])]
    store.finish(taken)
    assert [measurement.status for measurement in taken] == [Status.OK, Status.FAILED, Status.OK]
    assert [status for _, status, _ in stored(tmp_path)] == ["ok", "failed", "ok"]
    (reason,) = [reason for _, status, reason in stored(tmp_path) if status == "failed"]
    assert reason is not None
    assert "cannot be stored" in reason
    assert "cpu_share" in reason


def test_a_file_that_is_there_although_writing_it_failed_holds_its_rows_once(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(place(tmp_path, run.id), {"run_id": run.id}) as journal:
        store = Store(tmp_path, run, journal, print)
        for measurement in OK:
            store.take(measurement)
        fsync = durable.fsync_folder

        def failing(folder: Path) -> None:
            monkeypatch.setattr(durable, "fsync_folder", fsync)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(durable, "fsync_folder", failing)
        (tmp_path / "timings" / f"date={run.started_at:%Y-%m-%d}").mkdir(parents=True)
        with pytest.raises(OSError, match="Input/output"):
            store.finish(OK)
        assert len(stored(tmp_path)) == 3
        store.finish(OK)
    assert len(stored(tmp_path)) == 3


def test_a_run_that_goes_on_takes_over_the_files_that_it_has(tmp_path: Path, run: Run) -> None:
    with Journal(place(tmp_path, run.id), {"run_id": run.id}) as journal:
        store = Store(tmp_path, run, journal, print)
        store.take(OK[0])
        store.suspend(OK[:1])
        again = Store(tmp_path, run, journal, print)
        for measurement in OK:
            again.take(measurement)
        again.finish(OK)
    kept = [path for path in tmp_path.glob("timings/*/*.parquet") if "partial" not in path.name]
    assert len(kept) == 2
    assert len(duckdb.sql(f"from read_parquet({[str(path) for path in kept]})").fetchall()) == 3


def test_a_folder_that_cannot_be_written_any_more_is_left_with_what_it_holds(tmp_path: Path, run: Run) -> None:
    before, after = tmp_path / "full", tmp_path / "elsewhere"
    with Journal(place(before, run.id), {"run_id": run.id}) as journal:
        store = Store(before, run, journal, print)
        store.take(OK[0])
        first = store.finish(OK[:1])
        marker = next(before.glob("runs/*/_*.json"))
        marker.unlink()
        store.take(OK[1])
        store.move(after)
        store.take(OK[2])
        files = store.finish(OK)
    assert {path.relative_to(before) for path in first} < {path.relative_to(after) for path in files}
    assert [case_id for case_id, _, _ in stored(after)] == sorted(case.id for case in CASES)
    (whole,) = after.glob("runs/*/_*.json")
    named = {entry["key"]: entry["sha256"] for entry in json.loads(whole.read_text())["files"]}
    assert named == {path.relative_to(after).as_posix(): file_sha256(path) for path in files}
    # The folder that was left is as it was: it is the user's to look at.
    assert [case_id for case_id, _, _ in stored(before)] == [CASES[0].id]
