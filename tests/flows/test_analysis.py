"""docs/analysis.md: every block runs as it is written, and the plain ways see each row once."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.durable import publish
from flows.plan import divide
from flows.query import ask
from flows.storage import LocalRoot
from tests.flows.conftest import ROOT
from tests.flows.seaweed import Bucket
from tests.flows.stored import DAY, new_run, write_run
from tests.flows.test_holdings import compact, store

PAGE = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
OTHER = DAY + timedelta(days=1)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def execute(block: str) -> dict[str, Any]:
    """Run a block as its reader would; gives its names."""
    names: dict[str, Any] = {"printed": io.StringIO()}
    with contextlib.redirect_stdout(names["printed"]):
        exec(compile(block, "analysis.md", "exec"), names)
    return names


def block(words: str, language: str = "python") -> str:
    (found,) = [each for each in blocks(language) if words in each]
    return found


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two days of runs, one of them compacted, with the files that the compaction has replaced left in place."""
    root = tmp_path / "results"
    runs = [write_run(root).id for _ in range(2)]
    store(root, compact(root, runs))
    write_run(root)
    run = new_run(OTHER)
    write_run(root, run)
    planned = divide(run.order)
    publish(root / planned.key, planned.content())
    monkeypatch.chdir(tmp_path)
    return root


def counting(root: Path, where: str = "") -> list[tuple[Any, ...]]:
    query = f"select run_id, case_id, phase from timings {where} order by all"
    return [tuple(row.values()) for row in ask(LocalRoot(root), query, {}).table.to_pylist()]


def test_every_python_block_runs(results: Path) -> None:
    ran = [execute(each)["printed"].getvalue() for each in blocks("python") if "S3FileSystem" not in each]
    assert len(ran) == 4
    assert all(ran)


def test_no_block_names_files_of_parquet_by_a_pattern() -> None:
    """A day that was compacted holds every row twice for a while."""
    assert "*.parquet" not in "".join(blocks("python") + blocks("sh"))


def test_plain_duckdb_sees_each_row_once(results: Path) -> None:
    names = execute(block("getvariable('timings')"))
    assert names["timings"].project("run_id, case_id, phase").order("all").fetchall() == counting(results)
    (runs,) = ask(LocalRoot(results), "select list(run_id order by run_id) as ids from runs", {}).table.to_pylist()
    assert [run for (run,) in names["runs"].project("run_id").order("all").fetchall()] == runs["ids"]


def test_plain_pandas_sees_each_row_once(results: Path) -> None:
    timings = execute(block("pivot_table"))["timings"]
    rows = timings[["run_id", "case_id", "phase"]].itertuples(index=False, name=None)
    assert sorted(rows) == counting(results)


def test_what_names_a_day_sees_each_row_of_it_once_and_opens_no_file_of_another(results: Path) -> None:
    wanted = counting(results, f"where date = '{DAY:%Y-%m-%d}'")
    assert 0 < len(wanted) < len(counting(results))
    for path in results.glob(f"*/date={OTHER:%Y-%m-%d}/*"):
        path.write_bytes(b"no file of Parquet, and no marker")
    day = execute(block("getvariable('day')"))["day"]
    assert day.project("run_id, case_id, phase").order("all").fetchall() == wanted
    day = execute(block("day.groupby"))["day"]
    assert sorted(day[["run_id", "case_id", "phase"]].itertuples(index=False, name=None)) == wanted
    with pytest.raises(duckdb.Error):
        execute(block("getvariable('timings')"))


def test_the_block_over_s3_runs(results: Path, bucket: Bucket) -> None:
    named = replace(bucket, name="my-bucket")
    named.client.create_bucket(Bucket=named.name)
    for path in results.glob("*/date=*/*"):
        named.put(path.relative_to(results.parent).as_posix(), path.read_bytes())
    timings = execute(block("S3FileSystem"))["timings"]
    rows = timings.to_table(columns=["run_id", "case_id", "phase"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == counting(results)


@pytest.mark.timeout(300)
def test_every_command_runs(results: Path) -> None:
    binaries = results.parent / ".venv" / "bin"
    binaries.mkdir(parents=True)
    wrapper = binaries / "jitmatrix"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flows.cli "$@"\n')
    wrapper.chmod(0o755)
    for command in "".join(blocks("sh")).splitlines():
        done = subprocess.run(
            [shutil.which("sh") or "/bin/sh", "-c", command], cwd=results.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), command
    assert duckdb.sql(f"select count(*) from '{results.parent}/samples.parquet'").fetchall() != [(0,)]


def test_every_view_and_question_that_the_page_names_is_there(results: Path) -> None:
    for view in re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE):
        assert ask(LocalRoot(results), f"from {view}", {}).table.num_rows
