"""Sweeps on a real server: a worker for cpu, none for gpu, and a deployment for tpu whose work pool is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.query import ask
from flows.storage import LocalRoot
from tests.flows.conftest import ROOT
from tests.flows.prefect_server import PrefectServer, running

pytestmark = pytest.mark.faults

FILTERS = ("--matrix", "smoke", "--kernel", "double", "--framework", "numpy", "--framework", "jax/jit")
FILTERS += ("--dtype", "float32", "--rounds", "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    folder = tmp_path_factory.mktemp("sweep")
    locks = folder / "locks"
    with running(folder, {"JITMATRIX_LOCKS": str(locks)}) as server:
        for backend in ("cpu", "gpu", "tpu"):
            server.prefect("work-pool", "create", f"jitmatrix-{backend}", "--type", "process")
        server.prefect("--no-prompt", "deploy", "--all")
        server.prefect("--no-prompt", "work-pool", "delete", "jitmatrix-tpu")
        yield server


def sweep(server: PrefectServer, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", "sweep", *options]
    environment = {**server.environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=server.folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def api(server: PrefectServer, path: str, **query: Any) -> Any:
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(query).encode(), method="POST")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def sent(server: PrefectServer, name: str) -> dict[str, Any]:
    """Give the newest flow run of a name."""
    found = api(server, "/flow_runs/filter", flow_runs={"name": {"any_": [name]}}, sort="EXPECTED_START_TIME_DESC")
    run: dict[str, Any] = found[0]
    return run


def test_every_backend_has_its_share_and_one_without_a_worker_can_never_start_later(server: PrefectServer) -> None:
    backends = ("--backend", "cpu", "--backend", "gpu", "--backend", "tpu")
    with server.worker("jitmatrix-cpu"):
        done = sweep(server, *FILTERS, *backends, "--start-timeout", "30", "--results", str(server.results))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "jitmatrix: Unavailable: " in done.stdout, done.stdout + done.stderr
    assert "cpu: Completed; gpu: Unavailable; tpu: Unavailable" in done.stdout
    assert "no worker took it" in done.stdout
    assert "has no work pool" in done.stdout
    root = LocalRoot(server.results)
    counted = "select backend, count(*) as cells from plans join runs using (plan_hash) where complete group by 1"
    (row,) = ask(root, counted, {}).table.to_pylist()
    assert row["backend"] == "cpu"
    measured = ask(root, "select count(distinct case_id) as cells from timings", {}).table.to_pylist()
    assert measured == [{"cells": row["cells"]}]
    gpu = sent(server, "smoke on gpu")
    assert gpu["state_type"] == "CANCELLED"
    with server.worker("jitmatrix-gpu"):
        time.sleep(8)
    later = sent(server, "smoke on gpu")
    assert (later["id"], later["state_type"], later["run_count"]) == (gpu["id"], "CANCELLED", 0)


def test_a_sweep_is_compared_with_what_was_latest_before_it(server: PrefectServer) -> None:
    options = (*FILTERS, "--backend", "cpu", "--results", str(server.results))
    with server.worker("jitmatrix-cpu"):
        if not list(server.results.glob("runs/*/_*.json")):
            assert sweep(server, *options).returncode == 0
        done = sweep(server, *options, "--baseline", "latest")
    # One round on each side shows no scatter: nothing is called slower.
    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = [
        found["data"]
        for found in api(server, "/artifacts/filter", artifacts={"key": {"any_": ["sweep"]}}, sort="CREATED_DESC")
        if "Compared with the baseline" in found["data"]
    ]
    assert str(server.results) in page
    before, after = (
        row["run_id"]
        for row in ask(LocalRoot(server.results), "from runs order by started_at", {}).table.to_pylist()[-2:]
    )
    assert before in page
    assert after in page


def test_what_was_asked_wrongly_is_one_line_and_sends_nothing(server: PrefectServer) -> None:
    options = (*FILTERS, "--backend", "cpu", "--results", str(server.folder / "empty"))
    for wrong, line in (
        (("--baseline", "0123"), "baseline 0123: "),
        (("--image", "cpu=registry/image:1"), "is of type process, and runs no images"),
        (("--deployment", "gpu=bench/gpu"), "deployments: gpu is no backend of this sweep"),
        (("--image", "gup=x"), "gup"),
    ):
        before = api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on cpu"]}})
        done = sweep(server, *options, *wrong)
        assert done.returncode == 2, done.stdout + done.stderr
        (said,) = [each for each in done.stderr.splitlines() if each.startswith("jitmatrix: ")]
        assert line in said
        assert "Traceback" not in done.stderr
        assert api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on cpu"]}}) == before


def test_a_sweep_that_is_ended_takes_back_what_it_has_sent(server: PrefectServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "sweep", *FILTERS, "--backend", "gpu", "--results", str(tmp_path)]
    environment = {**server.environment, "PYTHONPATH": str(ROOT)}
    before = api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on gpu"]}})
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on gpu"]}}) == before:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.5)
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode not in (0, None)
    assert sent(server, "smoke on gpu")["state_type"] == "CANCELLED"


def test_a_worker_that_would_measure_another_plan_refuses(server: PrefectServer, tmp_path: Path) -> None:
    other = ("--param", 'kernel=["double"]', "--param", f"plan={'0' * 64}", "--param", f"results={tmp_path}")
    with server.worker("jitmatrix-cpu"):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "deployment", "run", "bench/cpu", *other, "--watch"],
            env=server.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode != 0
    (run, *_) = api(
        server, "/flow_runs/filter", flow_runs={"state": {"name": {"any_": ["Refused"]}}}, sort="START_TIME_DESC"
    )
    assert run["state"]["message"].startswith("plan: matrix seeds gives plan ")
    assert list(tmp_path.iterdir()) == []
