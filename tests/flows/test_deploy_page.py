"""docs/deploy.md: the way of one machine runs as it is written, and what the page names is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.flows.conftest import ROOT
from tests.flows.seaweed import free_ports

pytestmark = pytest.mark.faults

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def commands_of(text: str) -> list[str]:
    """The blocks of commands of a text."""
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


BLOCKS = commands_of(PAGE)


def written(commands: str, folder: Path, port: int, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run commands of the page in a shell, in a checkout with an environment; the server and the worker end with it."""
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name, command in (("python", ""), ("prefect", "-m prefect"), ("jitmatrix", "-m flows.cli")):
        (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        (binaries / name).chmod(0o755)
    (folder / "flows").symlink_to(ROOT / "flows")
    # The server, and the worker where it came to that.
    ending = "trap '{ kill %2; wait %2; kill %1; wait; } > /dev/null 2>&1' EXIT"
    # Jobs of a shell that has no control of them ignore the signals that end a worker.
    script = f"set -eum\n{ending}\n{commands}\n"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        **variables,
    }
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.timeout(600)
def test_one_machine_from_nothing_to_a_nightly_run(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    commands = "".join(BLOCKS[:3]).replace(":4200", f":{port}")
    assert commands.count("\n") == 9
    last = ".venv/bin/prefect deployment inspect sweep/nightly; .venv/bin/prefect automation ls"
    done = written(f"{commands}\n{last}", tmp_path, port, {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished in state Completed" in done.stdout + done.stderr or "Completed" in done.stdout, done.stdout
    assert "'active': True" in done.stdout
    assert "jitmatrix crashed runs" in done.stdout
    assert re.search(r"complete +smoke", done.stdout), done.stdout


def test_deployments_variables_and_files_that_the_page_names_are_there() -> None:
    entries = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    known = {f"{entry['entrypoint'].rpartition('.')[2]}/{entry['name']}" for entry in entries}
    named = set(re.findall(r"\b(?:bench|compact|report|sweep)/[a-z-]+", PAGE)) - {"bench/gpu,"}
    assert named == known
    for file in re.findall(r"\((?!http)([a-z]+\.md)", PAGE):
        assert (ROOT / "docs" / file).is_file()
    for file in re.findall(r"`?((?:flows|containers)/[a-z]+\.(?:yaml|json))", PAGE):
        assert (ROOT / file).is_file()
