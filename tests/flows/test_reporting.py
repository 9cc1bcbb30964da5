"""The flow `report` on a real server: what it writes stands below the root, and its run's page says where."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT
from tests.flows.prefect_server import PrefectServer, running
from tests.flows.stored import new_run, write_run

SCRIPT = """
import json, sys
from flows.reporting import report

found = [report(**parameters, return_state=True) for parameters in json.loads(sys.argv[1])]
print(json.dumps([[state.name, state.type.value, state.message] for state in found]))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrefectServer]:
    """Run a server of this test's own."""
    with running(tmp_path) as server:
        yield server


def test_the_report_of_a_range_is_stored_and_its_page_says_where(server: PrefectServer) -> None:
    now = datetime.now(UTC)
    recent, _ = (write_run(server.results, new_run(now - timedelta(days=days))) for days in (2, 9))
    asked = [{"since": "7d"}, {"since": "2999-01-01"}, {"results": str(server.folder / "none")}, {"run": ["nothing"]}]
    asked += [{"since": "soon"}]
    command = [sys.executable, "-c", SCRIPT, json.dumps(asked)]
    done = subprocess.run(command, env=server.environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    week, later, empty, *wrong = json.loads(done.stdout.splitlines()[-1])
    (file,) = server.results.glob("reports/*/*.html")
    assert week == ["Completed", "COMPLETED", f"{file}: cases 3, runs 1"]
    assert f"<code>{recent.id}</code>" in file.read_text(encoding="utf-8")
    for state, words in ((later, "no complete run began then or later"), (empty, "no results yet")):
        assert state[:2] == ["NothingToDo", "COMPLETED"]
        assert words in state[2]
    for state, words in zip(wrong, ("no such run", "YYYY-MM-DD, or a number of days as 7d"), strict=True):
        assert state[:2] == ["Refused", "FAILED"]
        assert words in state[2]
    shown = server.prefect("artifact", "inspect", "report").replace("\n", "")
    assert file.name in shown
    assert recent.id in shown
