"""Compactions that are killed, race and meet writers: a reader sees each row exactly once at every moment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from flows import compaction
from flows.replacement import MEMORY_NBYTES
from flows.results import Run
from flows.s3 import S3Root
from flows.spool import is_marker
from flows.storage import LocalRoot, Root, root
from flows.verify import verify
from tests.flows.conftest import ROOT
from tests.flows.killed import kills, probed
from tests.flows.seaweed import Bucket
from tests.flows.stored import expected, new_run, rows_of, write_run, write_wide

pytestmark = pytest.mark.faults

_COMPACTOR = """
import sys
from flows import compaction
from flows.storage import root
target = root(sys.argv[1])
seen = compaction.survey(target)
print("seen", flush=True)
sys.stdin.readline()
for day in seen.days:
    print(compaction.compact_day(target, day, seen, keep_raw_days=float(sys.argv[2])), flush=True)
"""

_MEASURED = """
import re, sys
from flows import compaction, external_sort, parquet
from flows.storage import root
scale = int(sys.argv[2])
external_sort.PART_NBYTES //= scale
external_sort._BATCH_NBYTES //= scale
parquet.GROUP_NBYTES //= scale
parquet._GATHERED_NBYTES //= scale
target = root(sys.argv[1])
seen = compaction.survey(target)
for day in seen.days:
    compaction.compact_day(target, day, seen)
# Of this process alone: the peak that getrusage tells begins with that of the process that started it.
print(int(re.findall(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[0]) * 1024)
"""


def compacted(target: Root, keep_raw_days: float = 0) -> None:
    """Compact, in a process that is not killed."""
    seen = compaction.survey(target)
    for day in seen.days:
        assert not compaction.compact_day(target, day, seen, keep_raw_days).problems


def test_a_compaction_killed_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    template = tmp_path / "template"
    runs = [write_run(template, cases=1) for _ in range(2)]
    compacted(LocalRoot(template), 7)
    runs.append(write_run(template, cases=1))  # late: its day is compacted again
    wanted, killed = expected(runs, 1), 0
    for step, run in enumerate(kills("compact_all")):
        target = LocalRoot(tmp_path / str(step))
        shutil.copytree(template, target.path)
        killed += run({"folder": str(target.path)})
        assert rows_of(target) == wanted
        compacted(target)
        assert rows_of(target) == wanted
        assert verify(target).problems == []
        assert len([key for key in _keys(target) if key.endswith(".parquet")]) <= 4  # two, and two of a killed one
    assert killed > 20


def test_a_compaction_in_s3_killed_at_any_request_loses_and_doubles_nothing(bucket: Bucket, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, cases=1) for _ in range(2)]
    wanted, killed, client = expected(runs, 1), 0, S3Root(bucket.name, "").client
    for step, run in enumerate(kills("compact_all")):
        target = probed(bucket.name, str(step), client)
        for key in _keys(LocalRoot(tmp_path)):
            bucket.put(f"{step}/{key}", (tmp_path / key).read_bytes())
        killed += run({"bucket": bucket.name, "prefix": str(step)})
        assert rows_of(target) == wanted
        compacted(target)
        assert rows_of(target) == wanted
    assert killed > 15


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_readers_and_writers_go_on_while_days_are_compacted_and_files_removed(
    kind: str, bucket: Bucket, tmp_path: Path
) -> None:
    target = root(str(tmp_path / "root") if kind == "local" else f"s3://{bucket.name}/root")
    first = [new_run() for _ in range(2)]
    for run in first:
        _store(target, run, tmp_path)
    written = list(first)
    seen: list[Counter[tuple[str, str, str]]] = []
    faults: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                before = expected(list(written))
                found = rows_of(target)
                assert max(found.values()) == 1
                assert before <= found
                seen.append(found)
        except BaseException as error:
            faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3):
            for _ in range(2):
                run = new_run()
                _store(target, run, tmp_path)
                written.append(run)
            compacted(target)
    finally:
        stop.set()
        reader.join()
    assert faults == []
    assert seen
    assert rows_of(target) == expected(written)


def test_of_compactions_that_race_for_a_day_one_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    runs = [write_run(folder) for _ in range(3)]
    command = [sys.executable, "-c", _COMPACTOR, str(folder), "0"]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "seen\n"
    said = [""] * len(racers)

    def go(number: int) -> None:
        said[number] = racers[number].communicate("go\n", timeout=120)[0]

    threads = [threading.Thread(target=go, args=(number,)) for number in range(len(racers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("another compaction was first" in each for each in said) == [False, True]
    assert [racer.returncode for racer in racers] == [0, 0]
    target = LocalRoot(folder)
    assert rows_of(target) == expected(runs)
    assert len([key for key in _keys(target) if "/compact-" in key]) == 2
    assert verify(target).problems == []


def test_memory_is_bounded_and_does_not_grow_with_ten_times_the_data(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    write_wide(small, 10, 2 << 20)
    write_wide(large, 100, 2 << 20)
    assert _peak_nbytes(tmp_path / "large", tmp_path / "copy", scale=1) < MEMORY_NBYTES
    # With its parts and row groups an eighth as large, 20 MB are as many parts as 160 MB are in earnest.
    growth = _peak_nbytes(large, tmp_path / "large8", scale=8) - _peak_nbytes(small, tmp_path / "small8", scale=8)
    assert growth < 40 << 20  # of 180 MB of rows


def _peak_nbytes(source: Path, folder: Path, scale: int) -> int:
    """Compact a copy of a root in a process of its own; gives its peak resident size in bytes."""
    shutil.copytree(source, folder)
    command = [sys.executable, "-c", _MEASURED, str(folder), str(scale)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240, check=True)
    assert len([key for key in _keys(LocalRoot(folder)) if "/compact-" in key]) == 2
    return int(done.stdout)


def _store(target: Root, run: Run, folder: Path) -> None:
    """Store a run as an uploader does: its marker last."""
    aside = LocalRoot(folder / run.id)
    write_run(aside.path, run)
    for key in sorted(_keys(aside), key=is_marker):
        target.put(key, aside.path / key)


def _keys(target: LocalRoot) -> list[str]:
    return [stored.key for stored in target.files()]
