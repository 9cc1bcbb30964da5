"""Closed days in few files: which days, which runs, in what order, and what is removed when."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows import compaction, schema
from flows.compaction import survey
from flows.durable import file_sha256
from flows.holdings import holdings
from flows.layout import Kind, compact_key, place
from flows.replacement import ORDER, Compacted
from flows.results import uuid7
from flows.storage import LocalRoot, Root, root
from kernels.errors import UsageError
from tests.flows.conftest import Command
from tests.flows.seaweed import Bucket
from tests.flows.stored import DAY, expected, new_run, rows_of, write_run


def compact(target: Root, keep_raw_days: float = 7, now: datetime | None = None) -> list[Compacted]:
    seen = survey(target, now)
    return [compaction.compact_day(target, day, seen, keep_raw_days) for day in seen.days]


def keys(target: LocalRoot, kind: Kind) -> list[str]:
    found = [stored.key for stored in target.files()]
    return sorted(key for key in found if (where := place(key)) and where.kind is kind)


@pytest.fixture
def target(tmp_path: Path) -> LocalRoot:
    return LocalRoot(tmp_path / "root")


def test_a_day_of_many_files_becomes_one_file_of_each_table_with_the_same_rows(target: LocalRoot) -> None:
    runs = [write_run(target.path) for _ in range(3)]
    before = {table: _content(target, table) for table in ORDER}
    (result,) = compact(target)
    assert (result.runs, result.files, result.problems) == (3, 6, [])
    assert [place(key).table for key in keys(target, Kind.COMPACT)] == ["runs", "timings"]  # type: ignore[union-attr]
    assert set(holdings(target).files) == set(keys(target, Kind.COMPACT))
    assert {table: _content(target, table) for table in ORDER} == before
    assert rows_of(target) == expected(runs)


def test_compact_files_are_sorted_for_readers_who_filter_and_packed_as_raw_ones_are(target: LocalRoot) -> None:
    for _ in range(3):
        write_run(target.path)
    compact(target)
    path = target.path / keys(target, Kind.COMPACT)[1]
    found = pq.read_table(path, columns=list(ORDER["timings"]))
    rows = [tuple(value or "" for value in row.values()) for row in found.to_pylist()]
    assert rows == sorted(rows)
    assert pq.read_schema(path).equals(schema.TIMINGS)
    metadata = pq.read_metadata(path)
    columns = {
        metadata.row_group(0).column(n).path_in_schema: metadata.row_group(0).column(n)
        for n in range(metadata.num_columns)
    }
    assert "DELTA_BINARY_PACKED" in columns["samples.list.element.list.element"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert columns["kernel"].statistics.min == "double"
    assert pq.read_schema(path).metadata[b"schema_version"] == str(schema.VERSION).encode()


def test_a_run_that_is_not_done_is_left_as_it_is(target: LocalRoot) -> None:
    done = [write_run(target.path) for _ in range(2)]
    suspended = write_run(target.path, suspended=True)
    compact(target, keep_raw_days=0)
    assert {held.place.id for held in holdings(target).unmarked.values()} == {suspended.id}
    assert rows_of(target) == expected([*done, suspended])


def test_a_day_is_compacted_an_hour_after_its_end_in_utc(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(days=1)
    assert compact(target, now=midnight + timedelta(minutes=59)) == []
    assert len(compact(target, now=midnight + timedelta(hours=1))) == 1


def test_one_run_of_one_file_is_few_files_already_and_a_compact_day_stays(target: LocalRoot) -> None:
    write_run(target.path)
    assert compact(target)[0].files == 0
    write_run(target.path)
    assert compact(target)[0].files == 4
    assert compact(target)[0].files == 0


def test_late_runs_are_taken_in_by_a_newer_manifest(target: LocalRoot) -> None:
    runs = [write_run(target.path) for _ in range(2)]
    compact(target)
    runs.append(write_run(target.path))
    assert rows_of(target) == expected(runs)
    (result,) = compact(target)
    assert (result.runs, result.files) == (1, 4)
    assert [place(key).id for key in keys(target, Kind.MANIFEST)] == ["000001", "000002"]  # type: ignore[union-attr]
    assert rows_of(target) == expected(runs)
    compact(target, keep_raw_days=0)
    assert len(keys(target, Kind.COMPACT)) == 2
    assert len(keys(target, Kind.MANIFEST)) == 1
    assert rows_of(target) == expected(runs)


def test_replaced_files_stay_for_the_days_that_one_chooses_and_markers_for_ever(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    raw, markers = keys(target, Kind.RAW), keys(target, Kind.MARKER)
    compact(target, keep_raw_days=2)
    now = datetime.now(UTC)
    compact(target, keep_raw_days=2, now=now + timedelta(days=2, minutes=-1))
    assert keys(target, Kind.RAW) == raw
    compact(target, keep_raw_days=2, now=now + timedelta(days=2, minutes=1))
    assert keys(target, Kind.RAW) == []
    assert keys(target, Kind.MARKER) == markers


@pytest.mark.parametrize("fault", ["damaged", "shorter", "missing"])
def test_a_run_with_a_file_that_is_not_what_its_marker_says_is_named_and_left(target: LocalRoot, fault: str) -> None:
    runs = [write_run(target.path) for _ in range(3)]
    path = next(target.path.glob(f"timings/*/{runs[0].id}*"))
    _spoil(path, fault)
    (result,) = compact(target, keep_raw_days=0)
    assert len(result.problems) == 1
    assert runs[0].id in result.problems[0]
    assert result.runs == 2
    assert set(pq.read_table(target.path / keys(target, Kind.COMPACT)[1])["run_id"].to_pylist()) == {
        run.id for run in runs[1:]
    }
    assert {place(key).id for key in keys(target, Kind.RAW)} == {runs[0].id}  # type: ignore[union-attr]


def test_nothing_is_removed_while_the_file_that_replaces_it_is_damaged(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    raw = keys(target, Kind.RAW)
    compact(target)
    _spoil(target.path / keys(target, Kind.COMPACT)[1], "damaged")
    (result,) = compact(target, keep_raw_days=0)
    assert "what the compaction has replaced stays" in result.problems[0]
    assert keys(target, Kind.RAW) == raw


@pytest.mark.parametrize("fault", ["shorter", "missing"])
def test_a_compact_file_that_is_lost_is_made_again_from_the_raw_files(target: LocalRoot, fault: str) -> None:
    runs = [write_run(target.path) for _ in range(2)]
    compact(target)
    _spoil(target.path / keys(target, Kind.COMPACT)[1], fault)
    (result,) = compact(target, keep_raw_days=0)
    assert (result.runs, result.problems) == (2, [])
    assert keys(target, Kind.RAW) == []
    assert rows_of(target) == expected(runs)


def test_a_day_whose_compact_file_is_lost_for_good_is_named_and_left_as_it_is(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    compact(target)
    compact(target, keep_raw_days=0)
    _spoil(target.path / keys(target, Kind.COMPACT)[1], "missing")
    write_run(target.path)
    before = keys(target, Kind.RAW), keys(target, Kind.COMPACT)
    (result,) = compact(target, keep_raw_days=0)
    assert "is missing or damaged; 2025-11-03 is left as it is" in result.problems[0]
    assert (keys(target, Kind.RAW), keys(target, Kind.COMPACT)) == before


def test_a_file_of_a_newer_version_is_left_since_its_columns_would_be_lost(target: LocalRoot) -> None:
    runs = [write_run(target.path) for _ in range(3)]
    path = next(target.path.glob(f"timings/*/{runs[0].id}*"))
    content = pq.read_table(path)
    pq.write_table(content.append_column("new", content["median_ns"]), path)
    _mark(target, runs[0].id, path)
    (result,) = compact(target)
    assert "does not know: new" in result.problems[0]
    assert result.runs == 2


def test_a_file_of_an_older_version_is_taken_in_with_nulls(target: LocalRoot) -> None:
    runs = [write_run(target.path) for _ in range(2)]
    path = next(target.path.glob(f"timings/*/{runs[0].id}*"))
    content = pq.read_table(path).drop_columns(["image", "source"])
    pq.write_table(content, path)
    _mark(target, runs[0].id, path)
    assert compact(target)[0].problems == []
    found = pq.read_table(target.path / keys(target, Kind.COMPACT)[1])
    assert found.schema.equals(schema.TIMINGS)
    assert rows_of(target) == expected(runs)


def test_what_a_killed_compaction_left_is_removed_after_a_day(target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    left = target.path / compact_key("timings", DAY.date(), str(uuid7()))
    left.write_bytes(b"half")
    hidden = left.with_name(f".{left.name}.0123456789ab")
    hidden.write_bytes(b"half")
    other = left.with_name(".of-the-user")
    other.write_bytes(b"his own")
    compact(target)
    assert left.exists()
    assert hidden.exists()
    for path in (hidden, other):
        os.utime(path, (time.time() - 90_000,) * 2)
    compact(target, now=datetime.now(UTC) + timedelta(days=1, minutes=1))
    assert not left.exists()
    assert not hidden.exists()
    assert other.exists()


def test_days_are_compacted_apart(target: LocalRoot) -> None:
    runs = [write_run(target.path, new_run(DAY + timedelta(days=day))) for day in (0, 0, 1, 1)]
    assert [result.runs for result in compact(target)] == [2, 2]
    assert rows_of(target) == expected(runs)
    assert [held.place.day for held in holdings(target).files.values()].count(DAY.date()) == 2


def test_a_root_in_s3_is_compacted_as_a_folder_is(bucket: Bucket, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "folder") for _ in range(3)]
    for stored in LocalRoot(tmp_path / "folder").files():
        bucket.put(f"p/{stored.key}", (tmp_path / "folder" / stored.key).read_bytes())
    target = root(f"s3://{bucket.name}/p")
    (result,) = compact(target)
    assert (result.runs, result.files, result.problems) == (3, 6, [])
    assert rows_of(target) == expected(runs)
    compact(target, keep_raw_days=0)
    assert rows_of(target) == expected(runs)
    assert len(bucket.contents()) == 2 + 1 + 3
    assert bucket.begun_uploads() == []


def test_a_server_that_ignores_conditions_is_refused(bucket: Bucket) -> None:
    target = root(f"s3://{bucket.name}/p")
    honours = target.honours  # type: ignore[attr-defined]
    vars(target)["honours"] = replace(honours, conditional=False)
    with pytest.raises(UsageError, match="ignores If-None-Match"):
        survey(target)


def test_the_command_says_what_became_of_each_day(jitmatrix: Command, target: LocalRoot) -> None:
    for _ in range(2):
        write_run(target.path)
    done = jitmatrix("compact", "--results", str(target.path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2025-11-03: 2 runs, 14 rows: 4 files (")
    done = jitmatrix("compact", "--results", str(target.path), "--keep-raw", "0")
    assert done.stdout == "2025-11-03: 4 files removed\n"
    done = jitmatrix("compact", "--results", str(target.path), "--keep-raw", "-1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def _content(target: LocalRoot, table: str) -> list[str]:
    found = [key for key in holdings(target).files if key.startswith(table)]
    rows = [row for key in found for row in pq.read_table(target.path / key).to_pylist()]
    return sorted(json.dumps(row, default=str) for row in rows)


def _spoil(path: Path, fault: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.unlink()
    if fault != "missing":
        path.write_bytes(content if fault == "damaged" else content[:-1])


def _mark(target: LocalRoot, run_id: str, path: Path) -> None:
    """Say in a run's marker what a file is now."""
    marker = next(target.path.glob(f"runs/*/_{run_id}.json"))
    content = json.loads(marker.read_text())
    for entry in content["files"]:
        if entry["key"].endswith(path.name):
            entry |= {"nbytes": path.stat().st_size, "sha256": file_sha256(path)}
    marker.write_text(json.dumps(content))
