"""Power cuts and kills: whatever ends a writer, an uploader or the server, nothing is lost and nothing doubled."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import s3
from flows.durable import publish, publish_new
from flows.s3 import S3Root
from flows.spool import Spool, spool
from flows.storage import root
from flows.upload import Uploaded, upload
from tests.flows.conftest import ROOT
from tests.flows.killed import PART_NBYTES, kills, probed
from tests.flows.runs import DAY, below, write_run
from tests.flows.seaweed import Bucket, SeaweedServer

pytestmark = pytest.mark.faults

_UPLOADER = """
import contextlib, sys
from flows.spool import Spool, spool
from flows.storage import root
from flows.upload import upload
if sys.argv[2] == "no lock":
    Spool.locked = lambda spool, patience_s: contextlib.nullcontext(True)
result = upload(spool(root(sys.argv[1])), root(sys.argv[1]), patience_s=60)
print(result)
sys.exit(not result.complete)
"""


def test_an_uploader_killed_at_any_step_loses_and_doubles_nothing(bucket: Bucket) -> None:
    stored, killed, client = {}, 0, S3Root(bucket.name, "").client
    for step, run in enumerate(kills("upload_all")):
        target = probed(bucket.name, str(step), client)
        waiting = spool(target)
        files = write_run(waiting.folder, "a", timings=1) | write_run(waiting.folder, "b", timings=0)
        stored |= below(str(step), files)
        killed += run({"bucket": bucket.name, "prefix": str(step)})
        assert below(str(step), {key: files[key] for key in waiting.pending()}).keys() | _keys(bucket, step) >= set(
            below(str(step), files)
        )
        assert upload(waiting, target).complete
        assert waiting.pending() == []
    assert killed > 15
    assert bucket.contents() == stored


def test_an_upload_in_parts_killed_at_any_step_is_stored_once_and_leaves_none_begun(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_NBYTES", PART_NBYTES)
    content = os.urandom(PART_NBYTES + 1)
    killed, client = 0, S3Root(bucket.name, "").client
    for step, run in enumerate(kills("upload_all")):
        target = probed(bucket.name, str(step), client)
        publish(spool(target).folder / "hlo" / "large", content)
        killed += run({"bucket": bucket.name, "prefix": str(step)})
        assert upload(spool(target), target).complete
        assert target.read("hlo/large") == content
        # An upload that was begun and never answered is found by its key.
        assert bucket.begun_uploads() == []
    assert killed > 10
    assert len(_keys(bucket, "")) == killed + 1


def test_a_writer_killed_at_any_step_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    seen = set()
    for step, run in enumerate(kills("write_file")):
        path = tmp_path / "spool" / str(step) / "file"
        killed = run({"path": str(path), "content": "whole"})
        seen.add((killed, path.read_text() if path.exists() else None))
    assert seen == {(True, None), (True, "whole"), (False, "whole")}


@pytest.mark.parametrize("lock", ["lock", "no lock"])
def test_two_uploaders_on_one_spool_store_everything_once(bucket: Bucket, lock: str) -> None:
    address = f"s3://{bucket.name}/results"
    waiting = spool(root(address))
    files = {}
    for number in range(10):
        files |= write_run(waiting.folder, str(number), timings=4)
    command = [sys.executable, "-c", _UPLOADER, address, lock]
    both = [subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert bucket.contents() == below("results", files)
    assert waiting.pending() == []


def test_a_spool_that_another_holds_waits(bucket: Bucket) -> None:
    target = root(f"s3://{bucket.name}/results")
    waiting = spool(target)
    files = write_run(waiting.folder, "a")
    with waiting.locked(0) as held:
        assert held
        result = upload(waiting, target, patience_s=0)
    assert sorted(result.waiting) == sorted(files)
    assert "another upload" in str(result)
    assert upload(waiting, target).complete


def test_a_server_killed_in_mid_upload_and_started_again_loses_and_doubles_nothing(
    bucket: Bucket, seaweed: SeaweedServer
) -> None:
    target = root(f"s3://{bucket.name}/results")
    waiting = spool(target)
    files = {}
    for number in range(20):
        files |= write_run(waiting.folder, str(number), timings=8)
    half, results = threading.Event(), list[Uploaded]()

    def work() -> None:
        seen = results.append(upload(waiting, target, progress=lambda now: half.set() if now.files > 60 else None))
        assert seen is None

    thread = threading.Thread(target=work)
    thread.start()
    assert half.wait(60)
    seaweed.kill()
    seaweed.start()
    thread.join()
    (result,) = results
    assert result.complete, result
    assert bucket.contents() == below("results", files)
    assert waiting.pending() == []


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Mount a disk of 256 kB for the spool."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a disk can be mounted by root alone")
    monkeypatch.setenv("JITMATRIX_SPOOL", str(disk))
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.skipif(os.name != "posix" or sys.platform == "darwin", reason="tmpfs is Linux")
def test_a_full_spool_says_so_keeps_what_is_whole_and_goes_on_when_there_is_room(
    bucket: Bucket, small_disk: Path
) -> None:
    target = root(f"s3://{bucket.name}/results")
    waiting = spool(target)
    files = write_run(waiting.folder, "a", timings=3, nbytes=40_000)
    key, content = f"timings/{DAY}/b.parquet", bytes(150_000)
    with pytest.raises(OSError, match="No space left"):
        publish(waiting.path(key), content)
    assert sorted(waiting.pending()) == sorted(files)
    assert _hidden(waiting) == []
    assert upload(waiting, target).complete
    publish(waiting.path(key), content)
    assert upload(waiting, target).complete
    assert bucket.contents() == below("results", files | {key: content})


@pytest.mark.parametrize("write", [publish, publish_new])
def test_a_write_that_breaks_off_leaves_nothing(tmp_path: Path, write: object) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(tmp_path / "folder" / "file", bytes(2 << 20))  # type: ignore[operator]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_folder_removed_under_a_writer_is_made_again(tmp_path: Path) -> None:
    stop = threading.Event()
    folder = tmp_path / "a" / "b"

    def remove() -> None:
        while not stop.is_set():
            for each in (folder, folder.parent):
                try:
                    each.rmdir()
                except OSError:
                    time.sleep(0.001)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for number in range(200):
            path = folder / str(number)
            publish(path, b"whole")
            assert path.read_bytes() == b"whole"
            path.unlink()
    finally:
        stop.set()
        thread.join()


def _hidden(waiting: Spool) -> list[str]:
    return sorted(path.name for path in waiting.folder.rglob(".*.parquet.*"))


def _keys(bucket: Bucket, prefix: object) -> set[str]:
    found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=f"{prefix}/" if prefix != "" else "")
    return {each["Key"] for each in found.get("Contents", ())}
