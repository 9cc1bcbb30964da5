"""docs/report.md: every command runs as it is written, and its table of options is that of the command."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flows.report_command import report
from tests.flows.conftest import ROOT
from tests.flows.stored import new_run, write_run

PAGE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_command_runs_as_written(tmp_path: Path) -> None:
    for hours in (30, 2):
        write_run(tmp_path / "results", new_run(datetime.now(UTC) - timedelta(hours=hours)))
    tool = tmp_path / ".venv" / "bin" / "jitmatrix"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flows.cli "$@"\n')
    tool.chmod(0o755)
    script = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert script.count("jitmatrix report") == 3
    done = subprocess.run(
        ["sh", "-ec", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("report.html", "two.html", "figures/spread.svg", "figures/spread.png"):
        assert (tmp_path / name).stat().st_size > 0


def test_the_options_are_those_of_the_command() -> None:
    told = re.findall(r"^\| `--([a-z]+)` \|", PAGE, re.MULTILINE)
    assert sorted(told) == sorted(inspect.signature(report).parameters)


def test_files_that_it_links_to_are_there() -> None:
    for name in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / name).is_file()
