"""A stored run in the terminal: bars and colour where it can, plain where not; the numbers are the stored ones."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from flows.query import ask
from flows.report_data import gather
from flows.results import Run
from flows.show import show
from flows.storage import LocalRoot
from kernels.progress import duration
from tests.flows.conftest import Command
from tests.flows.reported import write_report_runs

CASES = 60


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    root = tmp_path_factory.mktemp("shown")
    return root, write_report_runs(root, CASES)[-1]


def printed(root: Path, width: int, *, no_color: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard", no_color=no_color)
    show(gather(LocalRoot(root), history=False), console)
    return out.getvalue()


def test_the_times_are_those_of_the_results_and_every_tried_case_has_a_row(
    stored: tuple[Path, Run], jitmatrix: Command
) -> None:
    root, run = stored
    ended = jitmatrix("show", run.id, "--results", str(root))
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = {line.split(" ")[0]: line for line in ended.stdout.splitlines()}
    query = "select case_id, median_ns, flags from latest where phase = 'steady' and status = 'ok'"
    steady = ask(LocalRoot(root), query, {}).table.to_pylist()
    for row in steady:
        assert duration(row["median_ns"]) in rows[row["case_id"]]
        assert all(flag in rows[row["case_id"]] for flag in row["flags"])
    assert f"{CASES} planned = {len(steady)} ok" in ended.stdout


def test_what_is_piped_has_neither_colour_nor_bars(stored: tuple[Path, Run], jitmatrix: Command) -> None:
    root, _ = stored
    ended = jitmatrix("show", "--results", str(root))
    assert not re.search(r"[\x1b█-▏]", ended.stdout)
    assert ended.returncode == 0


def test_a_terminal_gets_bars_and_colour_and_no_color_leaves_the_bars(
    stored: tuple[Path, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = stored
    monkeypatch.setenv("TERM", "xterm-256color")
    assert re.search(r"\x1b\[3\d[;m][^█]*█", printed(root, 160))
    without = printed(root, 160, no_color=True)
    assert "█" in without
    assert not re.search(r"\x1b\[(3|4)\d", without)
    monkeypatch.setenv("TERM", "dumb")
    assert "█" not in printed(root, 160)


@pytest.mark.parametrize("width", [60, 80, 110, 150, 200])
def test_no_line_is_wider_than_the_terminal_and_no_steady_time_is_cut(stored: tuple[Path, Run], width: int) -> None:
    root, _ = stored
    text = printed(root, width, no_color=True)
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= width
    for row in ask(LocalRoot(root), "from cases where steady_ns is not null", {}).table.to_pylist():
        assert duration(row["steady_ns"]) in plain


def test_within_a_kernel_the_fastest_stands_first_and_the_flagged_last_without_a_bar(
    stored: tuple[Path, Run],
) -> None:
    root, _ = stored
    cases = ask(LocalRoot(root), "from cases where status = 'ok'", {}).table.to_pylist()
    lines = printed(root, 200, no_color=True).splitlines()
    at = {case["case_id"]: next(n for n, line in enumerate(lines) if case["case_id"] in line) for case in cases}
    flagged = [case for case in cases if case["steady_ns"] is None]
    assert flagged, "the run has flagged cases"
    for case in cases:
        for other in cases:
            if all(case[name] == other[name] for name in ("kernel", "size", "dtype")) and case["steady_ns"]:
                slower = other["steady_ns"] is None or other["steady_ns"] > case["steady_ns"]
                assert (at[other["case_id"]] > at[case["case_id"]]) or not slower
    for case in flagged:
        assert not re.search("[█-▏]", lines[at[case["case_id"]]])


@pytest.mark.parametrize(("run", "words"), [("nothing", "the nearest are"), ("2001-01-01", "no complete run")])
def test_a_run_that_is_not_there_is_one_line_with_the_choices(
    stored: tuple[Path, Run], jitmatrix: Command, run: str, words: str
) -> None:
    root, there = stored
    ended = jitmatrix("show", run, "--results", str(root))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr
    assert there.id in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(("width", "starred"), [(100, True), (200, False)])
def test_a_star_that_stands_for_a_note_is_explained(stored: tuple[Path, Run], width: int, starred: bool) -> None:
    root, _ = stored
    text = printed(root, width, no_color=True)
    assert (" * " in text, "* has a note: 150 columns show it" in text) == (starred, starred)
