"""The deployment: a real server, a process work pool and a worker on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.holdings import holdings
from flows.layout import Kind
from flows.storage import LocalRoot
from kernels.frameworks import modes
from tests.flows.conftest import PREFECT, ROOT
from tests.flows.stored import DAY, expected, rows_of, write_run


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run a server of this test's own; gives the environment in which Prefect's command finds it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": url,
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "JITMATRIX_HOME": str(ROOT),
        "JITMATRIX_RESULTS": str(tmp_path / "results"),
    }
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        yield environment
    finally:
        _end(server)


def test_every_deployment_deploys_and_runs_on_a_worker(variables: dict[str, str], tmp_path: Path) -> None:
    def prefect(*arguments: str) -> str:
        done = subprocess.run(
            [*PREFECT, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect("work-pool", "create", "jitmatrix-cpu", "--type", "process")
    prefect("--no-prompt", "deploy", "--all")
    # A schedule that nobody asked for would remove files.
    assert "'active': False" in prefect("deployment", "inspect", "compact/daily")
    closed = [write_run(tmp_path / "results") for _ in range(2)]
    with (tmp_path / "worker.log").open("wb") as log:
        start = [*PREFECT, "worker", "start", "--pool", "jitmatrix-cpu"]
        worker = subprocess.Popen(start, env=variables, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
    try:
        filters = ("--param", "matrix=smoke", "--param", 'kernel=["double"]')
        assert "Completed" in prefect("deployment", "run", "bench/cpu", *filters, "--watch")
        assert "Completed" in prefect("deployment", "run", "compact/daily", "--watch")
    finally:
        _end(worker)
    folder = LocalRoot(tmp_path / "results")
    assert [held.place.kind for held in holdings(folder).files.values() if held.place.day == DAY.date()] == [
        Kind.COMPACT
    ] * 2
    assert expected(closed) < rows_of(folder)
    rows = pd.read_parquet(tmp_path / "results" / "timings")
    rows = rows[~rows.run_id.isin([run.id for run in closed])]
    # What is not installed here is a row too.
    assert {"ok", "skipped"} <= set(rows[rows.phase == "steady"].status) <= {"ok", "skipped", "unavailable"}
    assert rows.case_id.nunique() == len(modes())


def test_deployments_stand_in_alphabetical_order_and_load_no_module_twice() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    names = [f"{entry['entrypoint']}/{entry['name']}" for entry in deployments]
    assert names == sorted(names)
    assert all(".py" not in entry["entrypoint"] for entry in deployments)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
