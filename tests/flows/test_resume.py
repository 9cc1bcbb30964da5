"""A run that is killed or interrupted anywhere is gone on with, and ends with the rows of an undisturbed one."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from flows.journal import unfinished
from flows.resume import reopen
from kernels.errors import UsageError
from tests.flows.conftest import Command

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[2]


def start(root: Path | str, step: int, run_id: str | None = None) -> int:
    command = [sys.executable, "-m", "tests.flows.resumed", str(root), str(step), *([run_id] if run_id else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL) or "came to its end" in done.stderr, done.stderr
    return done.returncode


def rows(root: Path) -> list[tuple[str, str, str, int, int]]:
    """Every row of the files that markers list: case, phase, status, rounds, and how often it is there."""
    files = [
        str(root / file["key"])
        for marker in root.glob("runs/*/_*.json")
        for file in json.loads(marker.read_text())["files"]
        if file["key"].startswith("timings/")
    ]
    query = (
        "select case_id, phase, any_value(status), any_value(rounds), count(*) from read_parquet($files) group by all"
    )
    return sorted(duckdb.execute(query, {"files": files}).fetchall()) if files else []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str, int, int]]:
    root = tmp_path_factory.mktemp("undisturbed")
    assert start(root, 0) == 0
    assert unfinished(root) == []
    found = rows(root)
    assert {row[-1] for row in found} == {1}
    return found


def whole(root: Path) -> bool:
    """Whether every file of timings is one that a marker lists."""
    listed = {
        file["key"].rpartition("/")[2]
        for marker in root.glob("runs/*/_*.json")
        for file in json.loads(marker.read_text())["files"]
    }
    return {path.name for path in root.glob("timings/*/*.parquet")} <= listed


def test_killed_before_any_of_its_steps_and_gone_on_with_it_ends_with_the_same_rows(
    tmp_path: Path, undisturbed: list[tuple[str, str, str, int, int]]
) -> None:
    for step in itertools.count(1):
        root = tmp_path / str(step)
        if start(root, step) == 0:
            break
        (run_id,) = unfinished(root)
        start(root, 0, run_id)
        assert unfinished(root) == []
        assert rows(root) == undisturbed, step
        assert whole(root)
    # Four turns, the machine, a file's line, the file, the run's row, the marker, the journal's end.
    assert step == 11


def test_killed_again_and_again_right_after_a_step_it_ends_with_the_same_rows(
    tmp_path: Path, undisturbed: list[tuple[str, str, str, int, int]]
) -> None:
    # A process that is always killed after its first step would write the same line for ever; some get further.
    steps = itertools.cycle([-1, -2, -4])
    killed, kills = start(tmp_path, next(steps)), 0
    while unfinished(tmp_path):
        assert killed == -signal.SIGKILL
        kills += 1
        assert kills < 20
        (run_id,) = unfinished(tmp_path)
        killed = start(tmp_path, next(steps), run_id)
    assert kills >= 3
    assert rows(tmp_path) == undisturbed
    assert whole(tmp_path)


def test_an_interrupted_run_says_how_to_go_on_and_its_partial_rows_give_way(jitmatrix: Command, tmp_path: Path) -> None:
    options = ("--kernel", "double", "--framework", "numpy", "--framework", "jax/jit", "--dtype", "float64")
    command = [sys.executable, "-m", "flows.cli", "bench", *options, "--rounds", "3", "--results", "results"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "round 1: 1/6" in line:
            break
    while not any(b'"turn"' in path.read_bytes() for path in tmp_path.glob("results/.journal/*")):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=90)
    assert running.returncode == 130
    found = re.search(r"jitmatrix bench (--resume \S+ --results results)", err)
    assert found, err
    root = tmp_path / "results"
    assert list(root.glob("timings/*/*-partial.parquet"))
    assert not list(root.glob("runs/*/_*.json"))

    done = jitmatrix("bench", *found[1].split())
    assert done.returncode == 0, done.stderr
    assert {(status, rounds, count) for _, phase, status, rounds, count in rows(root) if phase == "steady"} == {
        ("ok", 3, 1)
    }
    assert not list(root.glob("*/*/*-partial.parquet"))
    again = jitmatrix("bench", *found[1].split())
    assert again.returncode == 2
    assert "no unfinished run" in again.stderr
    assert again.stderr.count("\n") == 1


def test_what_a_run_was_begun_with_must_still_be_so(tmp_path: Path) -> None:
    assert start(tmp_path, 3) == -signal.SIGKILL
    (run_id,) = unfinished(tmp_path)
    journal = tmp_path / ".journal" / f"{run_id}.jsonl"
    begun, *others = journal.read_text().splitlines(keepends=True)
    for what, other in (("plan", "0" * 64), ("machine", "another"), ("commit", "0" * 40), ("version", "0.0.0")):
        journal.write_text("".join([json.dumps({**json.loads(begun), what: other}) + "\n", *others]))
        with pytest.raises(UsageError, match=f"its {what} was {other} and is .* now"):
            reopen(run_id, str(tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--resume", "../../etc"), "no id of a run"),
        (("--resume", "01a2326b-0000-7000-8000-000000000000"), "no unfinished run"),
        (("--resume", "01a2326b-0000-7000-8000-000000000000", "--cold"), "leave out --cold"),
    ],
)
@pytest.mark.usefixtures("shared_server")
def test_a_wrong_resume_is_one_line(jitmatrix: Command, options: tuple[str, ...], words: str) -> None:
    done = jitmatrix("bench", *options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
