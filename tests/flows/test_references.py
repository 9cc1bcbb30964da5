"""Which runs a reference means, and what is said where it means none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.query import ask
from flows.references import json_of, resolve
from flows.results import Run
from flows.s3 import S3Root
from flows.storage import LocalRoot
from flows.timings_file import read_file
from kernels.errors import UsageError
from tests.flows.seaweed import Bucket
from tests.flows.stored import DAY, new_run, write_run
from tests.flows.test_holdings import compact, store


def runs_on(folder: Path, *days: int) -> list[Run]:
    """Write a run for each day before DAY."""
    return [write_run(folder, new_run(DAY - timedelta(days=day))) for day in days]


def refused(folder: Path, text: str, backend: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(LocalRoot(folder), text, backend)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_latest_are_counted_back_from_the_newest_complete_run(tmp_path: Path) -> None:
    older, newest, oldest = runs_on(tmp_path, 1, 0, 2)
    write_run(tmp_path, suspended=True)
    root = LocalRoot(tmp_path)
    assert [resolve(root, text) for text in ("latest", "latest~1", "latest~2")] == [
        [newest.id],
        [older.id],
        [oldest.id],
    ]
    assert "has 3 complete runs; the newest complete ones are" in refused(tmp_path, "latest~3")


def test_a_beginning_that_one_run_has_is_enough(tmp_path: Path) -> None:
    first, second = (replace(new_run(), id=f"01a2{n}326b-9f22-755c-ba50-10d8f2480a87"[1:]) for n in "34")
    write_run(tmp_path, first), write_run(tmp_path, second)
    root = LocalRoot(tmp_path)
    assert resolve(root, first.id[:4].upper()) == [first.id]
    assert resolve(root, first.id) == [first.id]
    said = refused(tmp_path, first.id[:3])
    assert "2 runs begin so" in said
    assert {run.id for run in (first, second) if run.id in said} == {first.id, second.id}


def test_a_day_means_its_last_complete_run(tmp_path: Path) -> None:
    _, early = runs_on(tmp_path, 0, 1)
    late = write_run(tmp_path, new_run(DAY - timedelta(days=1) + timedelta(hours=2)))
    assert early.id != late.id
    assert resolve(LocalRoot(tmp_path), f"{DAY - timedelta(days=1):%Y-%m-%d}") == [late.id]
    assert "no complete run began on 2025-10-01 (UTC); the newest complete" in refused(tmp_path, "2025-10-01")
    assert "there is no such day" in refused(tmp_path, "2025-13-40")


def test_an_image_means_the_newest_complete_run_in_it(tmp_path: Path) -> None:
    def in_image(image: str) -> Run:
        run = new_run()
        return write_run(tmp_path, replace(run, environment=replace(run.environment, image=image)))

    one, other = in_image("jitmatrix:jax-0.7"), in_image("jitmatrix:jax-0.8")
    root = LocalRoot(tmp_path)
    assert resolve(root, "image:jitmatrix:jax-0.7,image:jitmatrix:jax-0.8") == [one.id, other.id]
    assert "there are runs in jitmatrix:jax-0.8, jitmatrix:jax-0.7" in refused(tmp_path, "image:jitmatrix:jax-0.6")


def test_where_no_run_was_in_an_image_that_is_said(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert "no complete run in this image; none ran in any" in refused(tmp_path, "image:jitmatrix")


def test_of_a_backend_the_newest_run_is_the_one_that_was_to_measure_it(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert resolve(LocalRoot(tmp_path), "latest", "cpu") == [run.id]
    assert "has 0 complete runs of gpu" in refused(tmp_path, "latest", "gpu")


def test_several_are_named_with_commas_each_once(tmp_path: Path) -> None:
    newest, older = runs_on(tmp_path, 0, 1)
    assert resolve(LocalRoot(tmp_path), f"latest, latest~1,{newest.id}") == [newest.id, older.id]
    for text in ("latest,", "latest,,latest~1", ",", "", " ", "image:"):
        assert "names no run" in refused(tmp_path, text)


def test_a_run_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    wrong = run.id[:-1] + ("0" if run.id[-1] != "0" else "1")
    assert f"the nearest are {run.id} (2025-11-03 12:00, smoke)" in refused(tmp_path, wrong)
    assert "give a run's id or its beginning, latest" in refused(tmp_path, "yesterday")


def test_an_incomplete_run_is_not_compared(tmp_path: Path) -> None:
    whole = write_run(tmp_path)
    cut = write_run(tmp_path, suspended=True)
    said = refused(tmp_path, cut.id)
    assert f"run {cut.id} is incomplete" in said
    assert f"complete are {whole.id}" in said


def test_an_empty_root_says_so(tmp_path: Path) -> None:
    assert "there are no results yet" in refused(tmp_path, "latest")


def test_a_run_of_a_later_schema_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (marker,) = tmp_path.glob(f"runs/*/_{run.id}.json")
    marker.write_text(marker.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    assert "version 9 of the schema, this jitmatrix knows 1" in refused(tmp_path, "latest")


def test_a_file_means_the_runs_whose_rows_it_holds(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (path,) = tmp_path.glob("timings/*/*.parquet")
    root = LocalRoot(tmp_path)
    assert resolve(root, str(path)) == [run.id]
    assert resolve(root, path.relative_to(tmp_path).as_posix()) == [run.id]
    assert "there is no such file" in refused(tmp_path, "missing.parquet")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"run_id": ["x"]}), "has no column case_id"),
        (None, "is no Parquet file"),
    ],
)
def test_a_file_that_holds_no_timings_is_refused(tmp_path: Path, table: pa.Table | None, says: str) -> None:
    path = tmp_path / "other.parquet"
    path.write_bytes(b"PAR1") if table is None else pq.write_table(table, path)
    assert says in refused(tmp_path, str(path))


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("phase", "stedy", "unknown phase 'stedy'"),
        ("case_id", None, "has rows without case_id"),
        ("samples", "many", "its column samples is string, not list<"),
    ],
)
def test_a_file_of_foreign_rows_is_one_line(tmp_path: Path, column: str, value: str | None, says: str) -> None:
    write_run(tmp_path)
    (path,) = tmp_path.glob("timings/*/*.parquet")
    table = pq.read_table(path, partitioning=None)
    place = table.schema.get_field_index(column)
    foreign = table.set_column(place, column, pa.array([value] * len(table), pa.string()))
    pq.write_table(foreign, tmp_path / "other.parquet")
    assert says in refused(tmp_path, str(tmp_path / "other.parquet"))


def test_a_file_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path)
    (path,) = tmp_path.glob("timings/*/*.parquet")
    table = pq.read_table(path, partitioning=None)
    for version, says in ((b"9", "version 9 of the schema"), (None, "no version of the schema")):
        footer = {k: v for k, v in table.schema.metadata.items() if k != b"schema_version"}
        footer |= {b"schema_version": version} if version else {}
        pq.write_table(table.replace_schema_metadata(footer), tmp_path / "other.parquet")
        assert says in refused(tmp_path, str(tmp_path / "other.parquet"))
    assert (
        read_file(LocalRoot(tmp_path), str(path)).column_names
        == ask(LocalRoot(tmp_path), "select * exclude (date) from timings", {}).table.column_names
    )


def test_runs_are_found_in_a_compacted_root_and_in_a_bucket(tmp_path: Path, bucket: Bucket) -> None:
    runs = [write_run(tmp_path) for _ in range(2)]
    root = S3Root(bucket.name, "results")
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name.startswith("date=")):
        root.put(path.relative_to(tmp_path).as_posix(), path)
    assert resolve(root, "latest") == [max(run.id for run in runs)]
    store(tmp_path, compact(tmp_path, [run.id for run in runs]))
    assert resolve(LocalRoot(tmp_path), "latest~1") == [min(run.id for run in runs)]


@pytest.mark.parametrize("text", [None, "", "{", "no JSON", "[1]", "null"])
def test_a_column_that_holds_no_mapping_says_nothing(text: str | None) -> None:
    assert json_of(text) == {}


def test_a_column_of_json_is_a_mapping() -> None:
    assert json_of('{"clock_mhz": 2100}') == {"clock_mhz": 2100}
