"""A root held against its markers: every fault is named with its file and how to mend it, and nothing is changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows import compaction, upkeep_commands
from flows.layout import compact_key
from flows.results import Run, uuid7
from flows.storage import LocalRoot, root
from flows.verify import verify
from tests.flows.conftest import Command
from tests.flows.seaweed import Bucket
from tests.flows.stored import DAY, new_run, write_run


@pytest.fixture
def target(tmp_path: Path) -> LocalRoot:
    return LocalRoot(tmp_path / "root")


def compact(target: LocalRoot, keep_raw_days: float = 7) -> None:
    seen = compaction.survey(target)
    for day in seen.days:
        assert compaction.compact_day(target, day, seen, keep_raw_days).problems == []


def kinds(target: LocalRoot, now: datetime | None = None) -> list[str]:
    return [problem.kind for problem in verify(target, now).problems]


def file(target: LocalRoot, pattern: str) -> Path:
    return sorted(target.path.glob(pattern))[0]


def test_a_sound_root_has_no_problem_raw_compact_and_cleared(target: LocalRoot) -> None:
    for _ in range(3):
        write_run(target.path)
    found = verify(target)
    assert (found.runs, found.files, found.rows, found.problems) == (3, 6, 18, [])
    compact(target)
    found = verify(target)
    assert (found.runs, found.files, found.rows, found.problems) == (3, 2, 18, [])
    compact(target, keep_raw_days=0)
    write_run(target.path)  # late
    assert str(verify(target)) == "4 whole runs, 4 files, 24 timings: no problem"


def test_an_empty_root_is_sound(target: LocalRoot) -> None:
    assert verify(target).problems == []


def test_nothing_is_changed(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    file(target, "timings/*/*").write_bytes(b"")
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in target.path.rglob("*") if path.is_file()}
    verify(target)
    assert before == {path: hashlib.sha256(path.read_bytes()).digest() for path in before}
    assert len([path for path in target.path.rglob("*") if path.is_file()]) == len(before)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


FAULTS = {
    "bytes changed": (_flip, "timings/*/*.parquet", "damaged"),
    "bytes of the run's row changed": (_flip, "runs/*/*.parquet", "damaged"),
    "truncated": (_truncate, "timings/*/*.parquet", "damaged"),
    "missing": (Path.unlink, "timings/*/*.parquet", "missing"),
    "no marker": (Path.unlink, "runs/*/_*.json", "incomplete"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_file_is_one_line_that_says_how_to_mend_it(target: LocalRoot, fault: str) -> None:
    for _ in range(2):
        write_run(target.path)
    spoil, pattern, kind = FAULTS[fault]
    path = file(target, pattern)
    spoil(path)
    (problem,) = verify(target).problems
    assert problem.kind == kind
    assert path.name.removeprefix("_").removesuffix(".json") in problem.key
    assert problem.mend


@pytest.mark.parametrize("spoil", [_flip, _truncate, Path.unlink])
def test_a_fault_in_a_compact_file_is_named(target: LocalRoot, spoil: Callable[[Path], None]) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target, keep_raw_days=0)
    spoil(file(target, "timings/*/compact-*"))
    found = kinds(target)
    assert {"damaged", "missing"} & set(found)


def test_what_verify_says_of_a_damaged_compact_file_mends_it(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target)
    path = file(target, "timings/*/compact-*")
    _flip(path)
    (problem,) = verify(target).problems
    assert "_compact-*.json" in problem.mend
    path.unlink()
    file(target, "runs/*/_compact-*").unlink()
    compact(target)
    assert kinds(target) == []


def test_a_damaged_marker_and_a_damaged_manifest_are_named(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target)
    file(target, "runs/*/_compact-*").write_text("{")
    file(target, "runs/*/_0*").write_text("no JSON")
    found = verify(target)
    assert [problem.kind for problem in found.problems if problem.key.endswith(".json")] == ["damaged", "damaged"]


def test_a_marker_of_a_compacted_run_that_is_lost_loses_nothing_and_is_named(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target, keep_raw_days=0)
    file(target, "runs/*/_0*").unlink()
    found = verify(target)
    assert [problem.kind for problem in found.problems] == ["marker"]
    assert found.rows == 12


def test_a_replaced_file_that_is_damaged_while_it_is_kept_is_named(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target)
    _flip(file(target, "timings/*/0*"))
    (problem,) = verify(target).problems
    assert (problem.kind, problem.mend) == ("damaged", "delete it")


def test_foreign_files_and_files_of_no_marker_are_named(target: LocalRoot) -> None:
    run = write_run(target.path)
    (target.path / "timings" / "notes.txt").write_text("a")
    day = f"date={DAY.date()}"
    shutil.copy(file(target, "timings/*/*.parquet"), target.path / "timings" / day / f"{run.id}-{uuid7()}.parquet")
    assert kinds(target) == ["foreign", "orphan"]


def test_what_a_killed_compaction_left_is_an_orphan_after_a_day(target: LocalRoot) -> None:
    write_run(target.path)
    (target.path / compact_key("timings", DAY.date(), str(uuid7()))).write_bytes(b"half")
    assert kinds(target) == []
    assert kinds(target, datetime.now(UTC) + timedelta(days=2)) == ["orphan"]


def test_a_row_that_is_held_twice_is_named(target: LocalRoot) -> None:
    run = write_run(target.path)
    _list_again(target, run)
    (problem,) = verify(target).problems
    assert (problem.kind, problem.found.startswith("6 of its rows are in ")) == ("duplicate", True)


def test_rows_of_another_run_are_named(target: LocalRoot) -> None:
    one, other = write_run(target.path), write_run(target.path)
    path = file(target, f"timings/*/{one.id}*")
    path.write_bytes(file(target, f"timings/*/{other.id}*").read_bytes())
    _mark(target, one, path)
    assert "foreign" in kinds(target)


def test_an_open_run_is_no_problem_and_an_interrupted_or_old_one_is(target: LocalRoot) -> None:
    run = new_run(datetime.now(UTC))
    write_run(target.path, run, suspended=True)
    assert kinds(target) == ["incomplete"]
    for path in target.path.rglob("*-partial.parquet"):
        path.unlink()
    found = verify(target)
    assert (found.open, found.problems) == (1, [])
    (problem,) = verify(target, datetime.now(UTC) + timedelta(days=2)).problems
    assert f"--resume {run.id}" in problem.mend


def test_a_root_in_s3_is_verified_by_its_content(bucket: Bucket, tmp_path: Path) -> None:
    folder = LocalRoot(tmp_path / "folder")
    write_run(folder.path)
    for stored in folder.files():
        bucket.put(f"p/{stored.key}", (folder.path / stored.key).read_bytes())
    target = root(f"s3://{bucket.name}/p")
    assert verify(target).problems == []
    path = file(folder, "timings/*/*")
    _flip(path)
    bucket.put(f"p/{path.relative_to(folder.path)}", path.read_bytes())
    assert [problem.kind for problem in verify(target).problems] == ["damaged"]


def test_the_command_prints_a_line_a_problem_and_its_exit_status_tells(jitmatrix: Command, target: LocalRoot) -> None:
    write_run(target.path)
    done = jitmatrix("verify", "--results", str(target.path))
    assert (done.returncode, done.stdout) == (0, f"{target.path}: 1 whole runs, 2 files, 6 timings: no problem\n")
    _flip(file(target, "timings/*/*"))
    done = jitmatrix("verify", "--results", str(target.path))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 3
    assert done.stdout.endswith("1 problem\n")


def test_the_command_needs_no_right_to_write(
    target: LocalRoot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The administrator may write everywhere: what the system answers is put in place of it."""
    write_run(target.path)
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert upkeep_commands.verify(results=str(target.path)) == 0
    assert "no problem" in capsys.readouterr().out


def _list_again(target: LocalRoot, run: Run) -> None:
    path = file(target, f"timings/*/{run.id}*")
    copy = path.with_name(f"{run.id}-{uuid7()}.parquet")
    shutil.copy(path, copy)
    marker = file(target, f"runs/*/_{run.id}.json")
    content = json.loads(marker.read_text())
    content["files"].append(content["files"][0] | {"key": f"timings/{copy.parent.name}/{copy.name}"})
    marker.write_text(json.dumps(content))


def _mark(target: LocalRoot, run: Run, path: Path) -> None:
    marker = file(target, f"runs/*/_{run.id}.json")
    content = json.loads(marker.read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    new = {"nbytes": path.stat().st_size, "sha256": digest, "rows": pq.read_metadata(path).num_rows}
    content["files"] = [each | new if each["key"].endswith(path.name) else each for each in content["files"]]
    marker.write_text(json.dumps(content))
