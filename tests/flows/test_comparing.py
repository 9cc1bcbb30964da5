"""The flow `compare` on a real server: its state says what was found, its page and its event have the cases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT
from tests.flows.prefect_server import PrefectServer, running
from tests.flows.test_compare import run_of

SCRIPT = """
import json, sys
from flows.comparing import compare

found = [compare(*sides, return_state=True) for sides in json.loads(sys.argv[1])]
print(json.dumps([[state.name, state.type.value, state.message] for state in found]))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrefectServer]:
    """Run a server of this test's own."""
    with running(tmp_path) as server:
        yield server


def test_the_state_says_what_was_found_and_the_page_shows_the_cases(server: PrefectServer) -> None:
    before, again = (run_of(server.results, seed=seed) for seed in (1, 2))
    slower = run_of(server.results, factors={"dense": 1.2}, seed=3)
    sides = [[before, again], [before, slower], [before, "nothing"]]
    command = [sys.executable, "-c", SCRIPT, json.dumps(sides)]
    done = subprocess.run(command, env=server.environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    same, regression, refused = json.loads(done.stdout.splitlines()[-1])
    assert same[:2] == ["Completed", "COMPLETED"]
    assert "0 slower" in same[2]
    assert regression[:2] == ["Regression", "FAILED"]
    assert "8 slower" in regression[2]
    assert refused[0] == "Refused"
    assert "the nearest are" in refused[2]
    assert "## jitmatrix: 8 slower" in server.prefect("artifact", "inspect", "comparison")
