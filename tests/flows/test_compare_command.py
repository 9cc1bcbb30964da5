"""The command `jitmatrix compare`: a table for people, files for machines, and an exit status for a gate."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.flows.conftest import Command
from tests.flows.stored import write_run
from tests.flows.test_compare import CASES, run_of


def test_a_regression_is_shown_written_and_exit_status_1(jitmatrix: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    before = run_of(results, seed=1)
    run_of(results, factors={"dense": 1.2}, seed=2)
    done = jitmatrix("compare", before, "--markdown", "made/pull-request.md", "--junit", "junit.xml")
    assert (done.returncode, done.stderr) == (1, "")
    assert "slower   dense-jax-jit-M-float32-cpu" in done.stdout
    assert "8 slower" in (tmp_path / "made" / "pull-request.md").read_text().splitlines()[0]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "8"


def test_the_same_again_is_exit_status_0_and_json_is_a_document(jitmatrix: Command, tmp_path: Path) -> None:
    for seed in (1, 2):
        run_of(tmp_path / "results", seed=seed)
    done = jitmatrix("compare", "latest~1", "latest", "--format", "json", "--phase", "steady")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value["passed"]
    assert value["phases"] == ["steady"]
    assert len(value["cases"]) == 2 * len(CASES)
    assert jitmatrix("compare", "latest~1", "--format", "markdown").stdout.startswith("## jitmatrix: no regression\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["latest~1"], "latest~1: results has 1 complete run; the newest complete ones are "),
        (["latest", "latest"], "is on both sides"),
        (["2025-11-02"], "no complete run began on 2025-11-02"),
        (["nonsense"], "results has no such run; the nearest are "),
        (["missing.parquet"], "there is no such file"),
        (["image:x"], "no complete run in this image"),
        (["latest", "--results", "elsewhere"], "there is no such folder"),
        (["latest", "--phase", "stedy"], "did you mean steady?"),
        (["latest", "--backend", "cuda"], "choose from cpu, gpu, tpu"),
        (["latest", "--smallest", "5"], "--smallest 5: it is a relative difference"),
        (["latest", "--smallest", "few"], "--smallest"),
        (["latest", "--format", "html"], "--format"),
        (["latest", "--junit", "a_file/x.xml"], "--junit a_file/x.xml: no file can be written there"),
        (["latest", "--markdown", "."], "--markdown"),
        ([], "BASELINE"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    jitmatrix: Command, tmp_path: Path, arguments: list[str], says: str
) -> None:
    write_run(tmp_path / "results")
    (tmp_path / "a_file").touch()
    done = jitmatrix("compare", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("jitmatrix: ")
    assert says in done.stderr


def test_an_empty_root_is_one_line(jitmatrix: Command, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = jitmatrix("compare", "latest~1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there are no results yet" in done.stderr
