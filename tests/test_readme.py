"""Every command of the README runs as it is written; what the README prints is what was printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

ELSEWHERE = {
    "make bench": ".ci/run",
    "make test": ".ci/run",
    "export JITMATRIX_HOME": "tests/flows/test_deployment.py",
    ".venv/bin/prefect": "tests/flows/test_deployment.py",
    ".venv/bin/jitmatrix deploy": "tests/flows/test_deployment.py",
}
"""Commands that run elsewhere in the same continuous integration: by the first words, and where."""


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_commands_that_run_elsewhere_do_run_there() -> None:
    ci, deployment = ((ROOT / name).read_text() for name in (".ci/run", "tests/flows/test_deployment.py"))
    assert re.search(r"^ *make test ", ci, re.MULTILINE)
    assert re.search(r"^ *make bench ", ci, re.MULTILINE)
    for words in ('"deploy", "--create", "process"', 'worker("jitmatrix-cpu")', '"bench/cpu"'):
        assert words in deployment


@pytest.mark.timeout(900)
def test_every_other_command_runs_as_written(tmp_path: Path) -> None:
    """In an empty folder with the project's environment, in the README's order: later commands read earlier results."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("jitmatrix", "python"):
        tool = Path(sys.executable) if name == "python" else Path(sys.executable).parent / name
        wrapper = binaries / name
        wrapper.write_text(f'#!/bin/sh\nexec "{tool}" "$@"\n')
        wrapper.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path / "prefect")}
    shell = shutil.which("sh") or "/bin/sh"
    ran = 0
    for command in commands():
        if command.startswith(tuple(ELSEWHERE)):
            continue
        done = subprocess.run(
            [shell, "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip
        # The doctor's status is 1 on a machine that is busy, which a machine under test is.
        assert done.returncode in ((0, 1) if "doctor" in command else (0,)), f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr
        ran += 1
    assert ran == 11


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#:]+)\)", README))
def test_what_the_readme_links_to_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_the_table_is_one_that_was_printed() -> None:
    assert "120 planned = 70 ok + 0 failed + 50 skipped" in README
    assert "dense-jax-jit-M-float32-cpu" in README
