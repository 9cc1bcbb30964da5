"""What people see of a run on a real server: its page, its log, its state, and the events that call a webhook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.artifacts import Publisher
from flows.pages import Rows
from tests.flows.conftest import ROOT
from tests.flows.prefect_server import PrefectServer, running

pytestmark = pytest.mark.faults

KERNEL = """
from dataclasses import replace
from kernels.suite.double import KERNEL as DOUBLE

def breaks(xp, x):
    if xp.__name__ == "numpy":
        return x * 2
    print("this was printed before it broke", flush=True)
    raise ValueError("it broke on purpose")

KERNEL = replace(DOUBLE, name="breaks", array=breaks, implementations={})
"""

FLOW = (
    "import json, sys; from flows.bench import bench; print(bench(**json.loads(sys.argv[1]), return_state=True).name)"
)

# In a process of its own, like a run: Prefect sends all the events of a process to the server of its first one.
EVENTS = """
from flows import events, states

well = {"planned": 4, "ok": 4, "failed": 0, "skipped": 0}
events.finished("run-well", "smoke", "results", well, states.ended(well))
events.regression("run-slow", "smoke", "results", "run-base", cases=2, lines=["dense: 1.3x slower", "more"])
"""


class Hook(BaseHTTPRequestHandler):
    """Keeps what a webhook is called with."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    received: list[dict[str, Any]] = []
    handler = type("OwnHook", (Hook,), {"received": received})
    with HTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/hook", received
        finally:
            listening.shutdown()
            thread.join()


@dataclass
class Seen:
    """A run that is over, as its server's API tells of it."""

    server: PrefectServer
    state: str
    artifacts: dict[str, dict[str, Any]]
    log: list[dict[str, Any]]
    run_id: str
    called: list[dict[str, Any]]


def api(server: PrefectServer, path: str, **body: Any) -> Any:
    return httpx.post(f"{server.url}{path}", json=body, timeout=60, trust_env=False).raise_for_status().json()


def until(found: Any, seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.2)
    return value


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("seen")
    with running(folder) as server, webhook() as (address, called):
        make_automations(server, folder, address)
        (folder / "breaks.py").write_text(KERNEL)
        source = str(folder / "breaks.py")
        parameters = {
            "kernel": [source, "double"], "framework": ["numpy", "jax/jit"], "size": ["S"], "dtype": ["float32"],
            "rounds": 2, "budget_s": 0.02, "results": str(server.results),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", FLOW, json.dumps(parameters)],
            env=server.environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
        (marker, *others) = [*server.results.glob("runs/*/_*.json"), None]
        assert marker is not None and len(others) == 1, done.stdout + done.stderr
        (run,) = api(server, "/flow_runs/filter")
        artifacts = {entry["key"]: entry for entry in api(server, "/artifacts/filter")}
        mine = {"logs": {"flow_run_id": {"any_": [run["id"]]}}, "sort": "TIMESTAMP_ASC"}
        until(lambda: any("cases done" in entry["message"] for entry in api(server, "/logs/filter", **mine)))
        yield Seen(
            server,
            done.stdout.strip().splitlines()[-1],
            artifacts,
            api(server, "/logs/filter", **mine),
            json.loads(marker.read_text())["run_id"],
            called,
        )


def make_automations(server: PrefectServer, folder: Path, address: str) -> None:
    """Make the block and the automations as docs/deploy.md does."""
    block = f"from prefect.blocks.webhook import Webhook; print(Webhook(url={address!r}).save('jitmatrix'))"
    made = subprocess.run(
        [sys.executable, "-c", block], env=server.environment, capture_output=True, text=True, timeout=120, check=True
    )
    text = (ROOT / "flows" / "webhook.yaml").read_text()
    zeros = "00000000-0000-0000-0000-000000000000"
    assert text.count(zeros) == 1
    (folder / "webhook.yaml").write_text(text.replace(zeros, made.stdout.strip()))
    server.prefect("automation", "create", "--from-file", str(folder / "webhook.yaml"))


def test_the_state_says_that_cases_failed(seen: Seen) -> None:
    assert seen.state == "CompletedWithFailedCases"


def test_the_page_of_the_run_shows_progress_results_failures_and_files(seen: Seen) -> None:
    assert {"bench-cpu-progress", "bench-cpu-failures", "bench-cpu-files"} <= set(seen.artifacts)
    assert all(re.fullmatch("[a-z0-9-]+", key) and entry["flow_run_id"] for key, entry in seen.artifacts.items())
    assert seen.artifacts["bench-cpu-progress"]["data"] == 100
    failures = seen.artifacts["bench-cpu-failures"]["data"]
    assert "### 1 failed" in failures
    assert "it broke on purpose" in failures
    assert "this was printed before it broke" in failures
    files = re.findall(r"^- `(.*)`$", seen.artifacts["bench-cpu-files"]["data"], re.MULTILINE)
    assert files
    assert all(Path(file).is_file() for file in files)
    tables: list[Rows] = [json.loads(e["data"]) for e in seen.artifacts.values() if e["type"] == "table"]
    shown = {row["case"] for rows in tables for row in rows}
    assert {case.split("-")[0] for case in shown} == {"breaks", "double"}
    assert len(shown) == sum(map(len, tables)) == 4


def test_the_log_has_a_sentence_for_every_case_and_warns_of_those_that_failed(seen: Seen) -> None:
    lines = {entry["message"].split(":")[0]: entry for entry in seen.log if "of 4 cases done" in entry["message"]}
    assert len(lines) == 4
    for case, entry in lines.items():
        failed = case.startswith("breaks-jax")
        assert (entry["level"] == 30) == failed
        assert ("it broke on purpose" if failed else "a call") in entry["message"]


def test_a_finished_run_that_did_not_go_well_calls_the_webhook(seen: Seen) -> None:
    found = until(lambda: [body for body in seen.called if "run.finished" in body["text"]])
    (body,) = found
    assert seen.run_id in body["text"]
    assert "4 planned = 3 ok + 1 failed + 0 skipped" in body["text"]


def test_a_regression_calls_the_webhook_and_a_run_that_went_well_does_not(seen: Seen) -> None:
    subprocess.run([sys.executable, "-c", EVENTS], env=seen.server.environment, cwd=ROOT, timeout=120, check=True)
    (body,) = until(lambda: [body for body in seen.called if "regression" in body["text"]])
    assert "run-slow" in body["text"]
    assert "2 cases are slower than in run run-base; dense: 1.3x slower" in body["text"]
    # It came before the other, whose webhook is there.
    assert not [body for body in seen.called if "run-well" in body["text"]]


def test_a_server_that_goes_away_is_told_once_and_fails_nothing(seen: Seen) -> None:
    notes: list[str] = []

    @flow(name="away")
    def away() -> str:
        publisher = Publisher(notes.append)
        assert publisher.progress("away-progress", 0, "begun")
        seen.server.kill()
        try:
            assert not publisher.progress("away-progress", 50, "half")
            publisher.markdown("away-page", "text", "what no one gets")
        finally:
            seen.server.start()
        assert publisher.progress("away-progress", 100, "back")
        return "went on"

    with temporary_settings({PREFECT_API_URL: seen.server.url}):
        assert away() == "went on"
    assert len(notes) == 1
    assert "away-progress" in notes[0]
    assert "\n" not in notes[0]
