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
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending, Running

from flows import following
from flows.dispatch import Errand, Sent, send
from flows.following import follow, recall
from flows.query import ask
from flows.results import uuid7
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
            server.pool(f"jitmatrix-{backend}")
        server.prefect("--no-prompt", "deploy", "--all")
        server.no_pool("jitmatrix-tpu")
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


def cells(root: LocalRoot, table: str = "timings") -> dict[str, int]:
    """Count the complete runs that each planned cell has, or is to have by its plan."""
    count = "count(distinct run_id)" if table == "timings" else "1"
    where = "where run_id in (select run_id from runs where complete)" if table == "timings" else ""
    found = ask(root, f"select case_id, {count} as runs from {table} {where} group by 1", {}).table.to_pylist()
    return {row["case_id"]: row["runs"] for row in found}


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
    # Every cell of the plan is a case of one complete run; those that nobody measured name no machine, and say why.
    assert cells(root) == cells(root, "plans") != {}
    told = ask(root, "select distinct backend, status, machine is null as nowhere, reason from timings", {})
    by_backend = {row["backend"]: row for row in told.table.to_pylist() if row["status"] != "skipped"}
    assert {name: (row["status"], row["nowhere"]) for name, row in by_backend.items()} == {
        "cpu": ("ok", False), "gpu": ("unavailable", True), "tpu": ("unavailable", True),
    }  # fmt: skip
    assert "no worker took it" in by_backend["gpu"]["reason"]
    assert "has no work pool" in by_backend["tpu"]["reason"]
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
        for row in ask(
            LocalRoot(server.results), "from runs where machine is not null order by started_at", {}
        ).table.to_pylist()[-2:]
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


def errand(name: str) -> Errand:
    return Errand("bench/gpu", {"matrix": "smoke", "run": str(uuid7())}, name, f"key of {name}")


def keyed(server: PrefectServer, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api(
        server, "/flow_runs/filter", flow_runs={"idempotency_key": {"any_": [f"key of {name}"]}}
    )
    return found


@pytest.mark.parametrize("order", ["it made the run before", "it makes the run after"])
def test_a_run_that_the_server_was_asked_for_without_an_answer_never_starts(server: PrefectServer, order: str) -> None:
    interrupted, late = Sent(errand(order), asked=True), Sent(errand(order))
    notes: list[str] = []
    with temporary_settings({PREFECT_API_URL: server.url}):
        if order == "it made the run before":
            send(late, notes.append)
            assert late.state is not None
            assert late.state.is_scheduled()
        recall([interrupted], "the sweep was ended", notes.append)
        if order == "it makes the run after":
            send(late, notes.append)
    (run,) = keyed(server, order)
    assert (run["state_type"], run["run_count"], run["state"]["message"]) == ("CANCELLED", 0, "the sweep was ended")
    assert str(late.flow_run) == str(interrupted.flow_run) == run["id"]
    assert notes == []


def test_a_run_that_its_worker_has_is_left_to_it_and_can_not_begin_any_more(
    server: PrefectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Sent(errand("taken"))
    notes: list[str] = []
    with temporary_settings({PREFECT_API_URL: server.url}):
        send(taken, notes.append)
        assert taken.flow_run is not None
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(taken.flow_run, Pending())
            recall([taken], "the sweep was ended", notes.append)
            assert taken.state is not None
            assert taken.state.type is StateType.CANCELLING
            # What a flow's process asks for when it begins.
            client.set_flow_run_state(taken.flow_run, Running())
            after = client.read_flow_run(taken.flow_run)
            monkeypatch.setattr(following, "ENDING_S", 0.0)
            # Its worker is gone: it keeps no other run of the deployment waiting.
            follow([taken], 60, 60, notes.append, lambda sent: None)
            assert client.read_flow_run(taken.flow_run).state_type is StateType.CANCELLED
    assert taken.untaken
    assert (after.state_type, after.run_count) == (StateType.CANCELLING, 0)
    assert notes == []


def test_a_share_whose_worker_can_not_start_it_is_unavailable(server: PrefectServer) -> None:
    unstartable = Sent(errand("unstartable"))
    notes: list[str] = []
    with temporary_settings({PREFECT_API_URL: server.url}):
        send(unstartable, notes.append)
        assert unstartable.flow_run is not None
        with get_client(sync_client=True) as client:
            client.update_flow_run(unstartable.flow_run, job_variables={"command": "/nowhere/program"})
        with server.worker("jitmatrix-gpu"):
            follow([unstartable], 60, 120, notes.append, lambda sent: None)
    assert unstartable.untaken
    assert "bench/gpu: Crashed before it began: " in unstartable.unavailable


def test_a_server_that_is_killed_while_a_sweep_follows_its_runs_costs_nothing(
    server: PrefectServer, tmp_path: Path
) -> None:
    options = (*FILTERS, "--backend", "cpu", "--results", str(tmp_path / "results"))
    before = api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on cpu"]}})
    with server.worker("jitmatrix-cpu"), (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "sweep", *options],
            cwd=tmp_path, env={**server.environment, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 120
            while api(server, "/flow_runs/count", flow_runs={"name": {"any_": ["smoke on cpu"]}}) == before:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.5)
            # It measures: Prefect's own start of a run outlives no server that goes away.
            while not [*(tmp_path / "results").glob(".journal/*"), *(tmp_path / "results").glob("runs/*/*")]:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.2)
            server.kill()
            time.sleep(20)
            server.start()
            process.wait(timeout=200)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
    said = (tmp_path / "log").read_text()
    assert process.returncode == 0, said
    assert "jitmatrix: Completed: " in said
    assert "Traceback" not in said
    root = LocalRoot(tmp_path / "results")
    assert cells(root) == cells(root, "plans") != {}
    assert sent(server, "smoke on cpu")["state_type"] == "COMPLETED"


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
