"""Roots of results, and names as parts of their keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flows.keys import PART_LENGTH, key_part
from flows.settings import settings
from flows.spool import spool
from flows.storage import ConflictError, LocalRoot, Put, StorageError, Stored, root
from kernels.errors import UsageError
from tests.flows.conftest import ROOT


@pytest.mark.parametrize("text", ["results", "{tmp}/new", "file://{tmp}/a%20b", "file://localhost{tmp}/x"])
def test_a_folder_is_a_root_and_not_made_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    found = root(text.format(tmp=tmp_path))
    assert isinstance(found, LocalRoot)
    assert found.path.absolute().parent == tmp_path
    assert "%" not in found.address
    assert list(tmp_path.iterdir()) == []
    assert spool(found).folder == found.path


def test_an_address_of_s3_is_tidied() -> None:
    assert root("s3://bucket//a/b/").address == "s3://bucket/a/b"
    assert root("S3://bucket").address == "s3://bucket"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "--results is empty"),
        ("gs://bucket/x", "gs is not known; choose a folder, file:///path or s3://bucket/prefix"),
        ("s3://", "it names no bucket"),
        ("file://data/results", "a file address has three slashes"),
        ("s3://KEY:hidden@bucket/x", "credentials do not belong in an address; set AWS_PROFILE"),
        ("{tmp}/file", "file is a file; name a folder"),
        ("{tmp}/file/below", "file is a file; name a folder"),
    ],
)
def test_a_root_that_cannot_be_one_is_a_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        root(text.format(tmp=tmp_path))
    assert line in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_local_root_keeps_what_it_is_given_once(tmp_path: Path) -> None:
    place = root(str(tmp_path / "results"))
    assert place.put("a/b", b"one") is Put.SENT
    assert place.put("a/b", b"one") is Put.THERE
    with pytest.raises(ConflictError, match="a/b holds other content already"):
        place.put("a/b", b"two")
    assert place.read("a/b") == b"one"
    assert list(place.files()) == [Stored("a/b", 3)]
    place.delete("a/b")
    place.delete("a/b")
    assert list(place.files()) == []
    assert place.sha256("a/b") is None
    with pytest.raises(StorageError, match="there is no a/b"):
        place.read("a/b")


def test_a_prefix_lists_as_in_s3_and_nothing_hidden(tmp_path: Path) -> None:
    for key in ("runs/date=1/_a.json", "runs/date=1/a.parquet", "runs/.b.tmp", ".target.json", ".probe/x", "runs2/c"):
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    place = root(str(tmp_path))
    assert [stored.key for stored in place.files("runs/date=1/_")] == ["runs/date=1/_a.json"]
    assert len(list(place.files("runs"))) == 3
    assert list(place.files("nothing/here")) == []


def test_a_folder_that_is_a_link_is_followed_and_a_circle_is_not(tmp_path: Path) -> None:
    (tmp_path / "disk" / "date=1").mkdir(parents=True)
    (tmp_path / "disk" / "date=1" / "a").write_text("1")
    (tmp_path / "root" / "runs").mkdir(parents=True)
    (tmp_path / "root" / "runs" / "date=1").symlink_to(tmp_path / "disk" / "date=1")
    (tmp_path / "root" / "runs" / "again").symlink_to(tmp_path / "root")
    place = root(str(tmp_path / "root"))
    assert [stored.key for stored in place.files()] == ["runs/date=1/a"]
    assert [stored.key for stored in place.files("runs/date=1/")] == ["runs/date=1/a"]


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "date=1").symlink_to(tmp_path / "unmounted")
    with pytest.raises(StorageError, match="date=1 cannot be read"):
        list(LocalRoot(tmp_path).files())


def test_a_folder_that_may_not_be_read_is_named_and_not_passed_over(tmp_path: Path) -> None:
    """The administrator may read everything: the listing is made by a user who may not."""
    shut = tmp_path / "runs" / "date=1"
    shut.mkdir(parents=True)
    shut.chmod(0)
    tmp_path.chmod(0o755)
    listing = """
import os, pathlib
from flows.storage import LocalRoot, StorageError
if os.getuid() == 0:
    os.setuid(65534)
try:
    print(list(LocalRoot(pathlib.Path()).files()))
except StorageError as error:
    print(error)
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", listing], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        shut.chmod(0o755)
    assert done.stdout.startswith(".: ./runs/date=1 cannot be read (Permission denied)")


def test_pyarrow_reads_a_dataset_of_a_local_root(tmp_path: Path) -> None:
    (tmp_path / "timings" / "date=2026-12-01").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "timings" / "date=2026-12-01" / "a.parquet")
    filesystem, path = root(str(tmp_path)).filesystem()
    assert ds.dataset(f"{path}/timings", filesystem=filesystem).to_table().num_rows == 1


def test_a_spool_that_cannot_be_made_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JITMATRIX_SPOOL", str(tmp_path / "file" / "spool"))
    with pytest.raises(UsageError, match=r"JITMATRIX_SPOOL: .* cannot be made"):
        spool(root("s3://bucket/x"))


def test_spools_of_different_roots_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_SPOOL", str(tmp_path))
    roots = ("s3://a", "s3://a/b", "s3://a-b", "s3://a/B", "s3://a/b/c", "s3://a/b-c")
    assert len({spool(root(text)).folder for text in roots}) == len(roots)


def test_the_spool_stands_where_state_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITMATRIX_SPOOL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert settings().spool == tmp_path / "jitmatrix" / "spool"


def test_a_variable_that_cannot_be_read_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_S3_ADDRESSING", "sideways")
    with pytest.raises(UsageError, match=r"JITMATRIX_S3_ADDRESSING: .*'auto', 'path' or 'virtual'"):
        settings()


# Names as parts of keys.


@given(st.text())
@example("..")
@example("")
@example("_hidden")
@example("\ud800")
def test_any_name_is_a_part_of_a_key(name: str) -> None:
    part = key_part(name)
    assert quote(part, safe="") == part
    assert part[0].isalnum()
    assert "=" not in part
    assert len(part) <= PART_LENGTH


@pytest.mark.parametrize("name", ["dense-jax-jit-M-float32-cpu", "a.b", "jacobi_2d"])
def test_a_plain_name_stays(name: str) -> None:
    assert key_part(name) == name


@given(st.text(max_size=6), st.text(max_size=6))
@example("a b", "a/b")
@example("a b", "a-b")
@example("é", "e")
def test_two_names_are_two_parts(one: str, other: str) -> None:
    assert (key_part(one) == key_part(other)) == (one == other)


@given(st.text())
def test_a_part_is_not_taken_for_another_names(name: str) -> None:
    part = key_part(name)
    assert part == name or key_part(part) != part
