"""Which files count: each row once at every moment, and nothing passed over in silence."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.holdings import Holdings, holdings
from flows.layout import Entry, Manifest, compact_key, manifest_key
from flows.results import uuid7
from flows.storage import LocalRoot, Stored
from tests.flows.stored import DAY, new_run, write_run

FOLDER = f"date={DAY:%Y-%m-%d}"


def look(root: Path) -> Holdings:
    return holdings(LocalRoot(root))


def counted(root: Path, found: Holdings | None = None) -> list[tuple[str, str, str]]:
    """Give every row that counts, by its run, case and phase."""
    files = (found or look(root)).files.values()
    tables = [pq.read_table(root / file.key) for file in files if file.place.table == "timings"]
    columns = [table.select(["run_id", "case_id", "phase"]).to_pylist() for table in tables]
    return sorted(tuple(row.values()) for rows in columns for row in rows)


def compact(root: Path, runs: list[str], generation: int = 1, earlier: Manifest | None = None) -> Manifest:
    """Put the files of runs, and those of an earlier compaction, together; the manifest is not stored."""
    taken = [Entry(**each) for run in runs for each in json.loads(marker(root, run).read_text())["files"]]
    taken += earlier.files if earlier else ()
    made = []
    for table in ("timings", "runs"):
        key = compact_key(table, DAY.date(), str(uuid7()))
        rows = pa.concat_tables([pq.read_table(root / entry.key) for entry in taken if entry.table == table])
        pq.write_table(rows, root / key)
        content = (root / key).read_bytes()
        made.append(Entry(key, len(content), hashlib.sha256(content).hexdigest(), rows.num_rows))
    replaces = {entry.key for entry in taken} | set(earlier.replaces if earlier else ())
    ids = {*runs, *(earlier.runs if earlier else ())}
    return Manifest(generation, datetime.now(UTC), tuple(made), tuple(sorted(replaces)), tuple(sorted(ids)))


def store(root: Path, manifest: Manifest) -> Path:
    path = root / manifest_key(DAY.date(), manifest.generation)
    path.write_bytes(manifest.to_json())
    return path


def marker(root: Path, run_id: str) -> Path:
    return root / f"runs/{FOLDER}/_{run_id}.json"


def test_the_files_that_a_marker_lists_count(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    found = look(tmp_path)
    assert {file.place.id for file in found.files.values()} == found.marked == {run.id}
    assert len(found.files) == 2
    assert found.aside == found.unmarked == {}


def test_a_root_without_results_holds_nothing(tmp_path: Path) -> None:
    assert look(tmp_path / "missing") == Holdings()


def test_a_run_without_a_marker_is_kept_apart(tmp_path: Path) -> None:
    run = write_run(tmp_path, suspended=True)
    found = look(tmp_path)
    assert {file.place.id for file in found.unmarked.values()} == {run.id}
    assert (found.files, found.marked, found.aside) == ({}, set(), {})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine.parquet", "foreign"),
        ("notes.txt", "foreign"),
        ("ünïcode name.parquet", "foreign"),
        ("{run}-{other}.parquet", "does not list it"),
        ("{run}-partial.parquet", "does not list it"),
        ("{other}-{run}.parquet", "empty"),
        ("compact-{other}.parquet", "of a compaction"),
    ],
)
def test_what_does_not_count_is_named_with_the_reason(tmp_path: Path, name: str, says: str) -> None:
    run = write_run(tmp_path)
    key = f"timings/{FOLDER}/" + name.format(run=run.id, other=uuid7())
    (tmp_path / key).write_bytes(b"")
    found = look(tmp_path)
    assert list(found.aside) == [key]
    assert says in found.aside[key]
    assert len(found.files) == 2


def test_a_truncated_and_a_missing_file_are_named(tmp_path: Path) -> None:
    whole, cut, lost = (write_run(tmp_path) for _ in range(3))
    keys = {run.id: next(tmp_path.glob(f"timings/*/{run.id}-*.parquet")) for run in (cut, lost)}
    keys[cut.id].write_bytes(keys[cut.id].read_bytes()[:-10])
    keys[lost.id].unlink()
    found = look(tmp_path)
    reasons = {key.rpartition("/")[2]: reason for key, reason in found.aside.items()}
    assert "damaged" in reasons[keys[cut.id].name]
    assert "missing" in reasons[keys[lost.id].name]
    assert {row[0] for row in counted(tmp_path, found)} == {whole.id}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": 3}', b'{"files": [{"key": 1}]}', b"\xff"])
def test_a_marker_that_is_none_is_named_and_its_run_is_without_one(tmp_path: Path, content: bytes) -> None:
    run = write_run(tmp_path)
    marker(tmp_path, run.id).write_bytes(content)
    found = look(tmp_path)
    assert list(found.aside) == [f"runs/{FOLDER}/_{run.id}.json"]
    assert {file.place.id for file in found.unmarked.values()} == {run.id}


def test_a_marker_cannot_name_a_file_outside_of_the_layout(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    content = json.loads(marker(tmp_path, run.id).read_text())
    content["files"].append({"key": "../secret.parquet", "nbytes": 1, "sha256": "", "rows": 1})
    marker(tmp_path, run.id).write_text(json.dumps(content))
    assert "foreign" in look(tmp_path).aside["../secret.parquet"]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_each_row_counts_once_whatever_of_a_compaction_has_been_done(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("root")
    runs = [write_run(root, cases=2).id for _ in range(3)]
    rows = counted(root)
    first = compact(root, runs[:2])
    assert counted(root) == rows
    steps = data.draw(st.integers(0, 3), "steps")
    removed: list[str] = []
    if steps >= 1:
        store(root, first)
        removed = [*first.replaces]
    if steps >= 2:
        second = compact(root, runs[2:], 2, first)
        assert counted(root) == rows
    if steps >= 3:
        store(root, second)
        removed = [*second.replaces]
    for key in data.draw(st.lists(st.sampled_from(removed), unique=True)) if removed else ():
        (root / key).unlink()
    assert counted(root) == rows


def test_a_compaction_that_is_not_whole_leaves_its_rows_to_the_raw_files(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    rows = counted(tmp_path)
    made = compact(tmp_path, [run.id])
    path = store(tmp_path, made)
    (tmp_path / made.files[0].key).write_bytes(b"cut")
    found = look(tmp_path)
    assert counted(tmp_path, found) == rows
    assert path.relative_to(tmp_path).as_posix() in found.aside
    assert "damaged" in found.aside[made.files[0].key]


@pytest.mark.parametrize("table", [0, 1])
def test_a_damaged_compact_file_hides_nothing_of_the_other_table(tmp_path: Path, table: int) -> None:
    run = write_run(tmp_path)
    made = compact(tmp_path, [run.id])
    path = store(tmp_path, made)
    for key in made.replaces:
        (tmp_path / key).unlink()
    (tmp_path / made.files[table].key).write_bytes(b"cut")
    found = look(tmp_path)
    assert set(found.files) == {made.files[1 - table].key}
    assert set(found.aside) == {made.files[table].key, path.relative_to(tmp_path).as_posix()}


def test_what_somebody_has_found_damaged_does_not_count(tmp_path: Path) -> None:
    write_run(tmp_path)
    (key,) = (key for key in look(tmp_path).files if key.startswith("timings/"))
    found = holdings(LocalRoot(tmp_path), {key: "why"})
    assert (len(found.files), found.aside) == (1, {key: "why"})


def test_an_earlier_compaction_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    runs = [write_run(tmp_path).id for _ in range(2)]
    rows = counted(tmp_path)
    first = compact(tmp_path, runs[:1])
    store(tmp_path, first)
    second = compact(tmp_path, runs[1:], 2, first)
    store(tmp_path, second)
    for key in second.replaces:
        (tmp_path / key).unlink()
    found = look(tmp_path)
    assert counted(tmp_path, found) == rows
    assert (found.aside, found.missing) == ({}, set())


def test_a_run_that_comes_after_the_compaction_counts_beside_it(tmp_path: Path) -> None:
    first = write_run(tmp_path)
    store(tmp_path, compact(tmp_path, [first.id]))
    late = write_run(tmp_path, new_run())
    assert {row[0] for row in counted(tmp_path)} == {first.id, late.id}


@dataclass(frozen=True)
class Overtaken(LocalRoot):
    """A folder in which a compaction ends, and removes what it replaced, while it is being listed."""

    manifest: list[Manifest] = field(default_factory=list)

    def files(self, prefix: str = "") -> Iterator[Stored]:
        if prefix.startswith("timings/") and self.manifest:
            made = self.manifest.pop()
            store(self.path, made)
            for key in made.replaces:
                (self.path / key).unlink()
        return super().files(prefix)


def test_a_reader_that_a_compaction_overtakes_looks_again(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    rows = counted(tmp_path)
    found = holdings(Overtaken(tmp_path, [compact(tmp_path, [run.id])]))
    assert counted(tmp_path, found) == rows
    assert found.aside == {}


def test_a_copied_folder_reads_the_same(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert look(tmp_path / "a") == look(tmp_path / "b")
