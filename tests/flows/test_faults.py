"""Processes that die, servers that go away, runs that are cancelled: against a real server and a real worker."""

from __future__ import annotations

import itertools
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pandas as pd
import pytest
import yaml
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import State, StateType
from prefect.client.schemas.responses import GlobalConcurrencyLimitResponse
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed

from flows import device
from flows.device import DeviceClaim
from flows.journal import unfinished
from kernels import device_lock
from kernels.case import Backend
from tests.flows.conftest import PREFECT, ROOT
from tests.flows.prefect_server import PrefectServer, end, running
from tests.flows.test_resume import rows

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and ends processes with their parent"),
]

Rows = list[tuple[str, str, str, int, int]]

POOL = "jitmatrix-cpu"
FILE = Path(__file__).with_name("patient.py")
SAMPLING = {"rounds": 2, "budget_s": 0.02, "min_sample_ms": 1.0, "seed": 1}
PATIENT = {
    "kernel": [f"{FILE}:patient", f"{FILE}:quick"],
    "framework": ["python/plain"],
    "size": ["S"],
    "dtype": ["float64"],
}
DEADLINE_S = 240.0
"""No test is about it: on a busy machine a flow takes most of a minute to start."""


class Worker:
    """A worker of the pool, which can be killed and started again."""

    def __init__(self, server: PrefectServer) -> None:
        self._server = server

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def start(self) -> None:
        """Start it."""
        command = [*PREFECT, "worker", "start", "--pool", POOL, "--type", "process"]
        self._process = self._server.spawn(command, "worker")

    def kill(self) -> None:
        """Kill it, and nothing else."""
        self._process.kill()
        self._process.wait()


class Bench:
    """The deployment `bench/cpu` on a server, and what a test does to a run of it."""

    def __init__(self, server: PrefectServer, folder: Path) -> None:
        self.server, self.folder, self.worker = server, folder, Worker(server)
        self.client = SyncPrefectClient(server.url)
        self.deployment = self.client.read_deployment_by_name("bench/cpu")

    def start(self, results: Path) -> UUID:
        """Submit a run of the two kernels to the worker; `patient` waits in it."""
        self.clear()
        return self.submit(results)

    def submit(self, results: Path, **parameters: object) -> UUID:
        """Submit a run to the worker, as things are."""
        chosen = {**PATIENT, **SAMPLING, "results": str(results), **parameters}
        return self.client.create_flow_run_from_deployment(self.deployment.id, parameters=chosen).id

    def begin(self, results: Path, **variables: str) -> subprocess.Popen[str]:
        """Begin a run of the two kernels without a worker, as things are."""
        options = [f"--{name}={value}" for name, values in PATIENT.items() for value in values]
        sampling = ["--rounds=2", "--budget=0.02", "--min-sample=1", "--seed=1"]
        return self.command("bench", *options, *sampling, "--results", str(results), **variables)

    def clear(self) -> None:
        """Forget what was said."""
        for path in self.folder.iterdir():
            path.unlink()

    def told(self) -> list[int]:
        """Wait until `patient` computes; gives its process, a child of it, its fork server, and the flow."""
        wait_for((self.folder / "told").exists)
        return [int(pid) for pid in (self.folder / "told").read_text().split()]

    def go(self) -> None:
        """Let `patient` go on."""
        (self.folder / "go").touch()

    def expect(self, run: UUID, name: str) -> None:
        """Wait until a run is over, and look how."""
        wait_for(lambda: self.state(run).is_final())
        state = self.state(run)
        assert state.name == name, state.message

    def state(self, run: UUID) -> State[object]:
        """Read a run's state; a server that starts is waited for."""
        state = self.client.read_flow_run(run).state
        assert state is not None
        return state

    def going(self) -> list[UUID]:
        """Read which runs are running."""
        kinds = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
        return [run.id for run in self.client.read_flow_runs(flow_run_filter=FlowRunFilter(state=kinds))]

    def command(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the command `jitmatrix` beside the worker, on the same server."""
        return self.spawn("-m", "flows.cli", *arguments, **variables)

    def spawn(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start an interpreter beside the worker."""
        own = {"PYTHONPATH": str(ROOT), "PREFECT_LOGGING_LEVEL": "CRITICAL"}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.server.folder,
            env={**self.server.environment, **own, **variables},
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def limit(self) -> GlobalConcurrencyLimitResponse:
        """Read the limit of this machine's processors."""
        return self.client.read_global_concurrency_limit_by_name(f"jitmatrix-{platform.node()}-cpu")

    def spans(self) -> int:
        """Count the runs that computed; no two of them at once."""
        stamps = [tuple(map(int, line.split())) for line in (self.folder / "stamps").read_text().splitlines()]
        runs = [run for run, _ in sorted(stamps, key=lambda stamp: stamp[1])]
        changes = sum(before != after for before, after in itertools.pairwise(runs))
        assert changes == len(set(runs)) - 1
        return len(set(runs))


def wait_for(found: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids: set[int], seconds: float) -> None:
    """Wait until processes are gone."""
    deadline = time.monotonic() + seconds
    while left := list(filter(alive, pids)):
        assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_text() for pid in left]
        time.sleep(0.1)


def descendants(pid: int) -> set[int]:
    """Give the processes below a process."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child} | descendants(child)
    return found


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    place, folder = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("patient")
    # As often as Prefect lets a flow be heard.
    with running(place, {"PATIENT": str(folder), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}) as server:
        server.prefect("work-pool", "create", POOL, "--type", "process")
        server.prefect("--no-prompt", "deploy", "--name", "cpu")
        made = Bench(server, folder)
        with made.worker:
            yield made


@pytest.fixture(scope="module")
def undisturbed(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of a run to which nothing happens."""
    results = tmp_path_factory.mktemp("undisturbed")
    run = bench.start(results)
    bench.go()
    bench.expect(run, "Completed")
    return rows(results)


def test_a_flow_killed_on_a_worker_leaves_no_process_and_is_crashed_and_resumed_with_the_same_rows(
    bench: Bench, undisturbed: Rows, tmp_path: Path
) -> None:
    run = bench.start(tmp_path)
    *_, flow = processes = bench.told()
    below = descendants(flow) | set(processes)
    os.kill(flow, signal.SIGKILL)
    gone(below, 5)
    bench.expect(run, "Crashed")
    bench.go()
    (run_id,) = unfinished(tmp_path)
    done = bench.command("bench", "--resume", run_id, "--results", str(tmp_path))
    _, err = done.communicate(timeout=DEADLINE_S)
    assert done.returncode == 0, err
    assert rows(tmp_path) == undisturbed


def test_a_flow_killed_without_a_worker_is_told_and_marked_when_the_next_run_of_its_root_begins(
    bench: Bench, tmp_path: Path
) -> None:
    bench.clear()
    killed = bench.begin(tmp_path)
    *_, flow = processes = bench.told()
    assert flow == killed.pid
    below = descendants(flow) | set(processes)
    (run,) = bench.going()
    killed.kill()
    killed.communicate()
    gone(below, 5)
    assert bench.state(run).name == "Running"
    (run_id,) = unfinished(tmp_path)
    bench.go()
    _, err = bench.begin(tmp_path).communicate(timeout=DEADLINE_S)
    assert f"killed or interrupted; go on with it: jitmatrix bench --resume {run_id} --results {tmp_path}\n" in err
    assert bench.state(run).name == "Crashed"
    assert run_id in str(bench.state(run).message)


def test_a_flow_of_which_nobody_is_left_is_marked_by_the_automation_and_one_that_ended_is_not(
    bench: Bench, tmp_path: Path
) -> None:
    shipped = yaml.safe_load((ROOT / "flows" / "automations.yaml").read_text())
    for each in shipped["automations"]:
        # Shorter than the time between two heartbeats: the first one that is missed is enough.
        each["trigger"]["within"] = 10
    (tmp_path / "automations.yaml").write_text(yaml.safe_dump(shipped))
    bench.server.prefect("automation", "create", "--from-file", str(tmp_path / "automations.yaml"))
    try:
        bench.clear()
        killed = bench.begin(tmp_path / "results")
        bench.told()
        (run,) = bench.going()
        killed.kill()
        killed.communicate()
        # Its name is not one of Prefect's.
        over = bench.submit(tmp_path / "others", kernel=["no such kernel"])
        bench.expect(over, "Refused")
        wait_for(lambda: bench.state(run).is_final())
        assert bench.state(run).name == "Crashed"
        assert "heartbeats" in str(bench.state(run).message)
        assert bench.state(over).name == "Refused"
    finally:
        bench.server.prefect("automation", "delete", shipped["automations"][0]["name"])


def test_a_run_cancelled_in_mid_case_leaves_no_process_and_keeps_what_was_measured(
    bench: Bench, tmp_path: Path
) -> None:
    run = bench.start(tmp_path)
    *_, flow = processes = bench.told()
    below = descendants(flow) | set(processes)
    bench.server.prefect("flow-run", "cancel", str(run))
    gone(below, 10)
    bench.expect(run, "Cancelled")
    (partial,) = tmp_path.glob("timings/*/*-partial.parquet")
    steady = pd.read_parquet(partial).query("phase == 'steady'")
    assert dict(zip(steady.kernel, steady.status, strict=True))["quick"] == "ok"


def test_a_server_that_is_killed_and_back_after_30_s_costs_a_run_nothing(
    bench: Bench, undisturbed: Rows, tmp_path: Path
) -> None:
    run = bench.start(tmp_path)
    bench.told()
    bench.server.kill()
    time.sleep(30)
    bench.server.start()
    bench.go()
    bench.expect(run, "Completed")
    assert rows(tmp_path) == undisturbed


def test_a_worker_killed_in_mid_run_and_started_again_leaves_a_run_that_ends_right(
    bench: Bench, undisturbed: Rows, tmp_path: Path
) -> None:
    run = bench.start(tmp_path)
    bench.told()
    bench.worker.kill()
    bench.worker.start()
    bench.go()
    bench.expect(run, "Completed")
    assert rows(tmp_path) == undisturbed


def test_one_deployment_started_twice_at_once_runs_once_and_then_again(bench: Bench, tmp_path: Path) -> None:
    first = bench.start(tmp_path / "first")
    second = bench.submit(tmp_path / "second")
    bench.told()
    bench.go()
    for run in (first, second):
        bench.expect(run, "Completed")
    assert rows(tmp_path / "first") == rows(tmp_path / "second") != []
    assert bench.spans() == 2


def test_a_run_without_prefect_waits_for_one_with_it_and_one_that_waits_no_longer_is_unavailable(
    bench: Bench, tmp_path: Path
) -> None:
    run = bench.start(tmp_path / "first")
    bench.told()
    (run_id,) = unfinished(tmp_path / "first")
    patient = bench.spawn("-m", "kernels", "--kernel", f"{FILE}:quick", "--framework=python/plain", "--size=S")
    hasty = bench.begin(tmp_path / "second", JITMATRIX_DEVICE_WAIT_S="0.5")
    assert patient.stderr is not None
    assert f"cpu is held by run {run_id} " in next(line for line in patient.stderr if "is held by" in line)
    assert (bench.limit().limit, bench.limit().active_slots) == (1, 1)
    out, err = hasty.communicate(timeout=DEADLINE_S)
    assert hasty.returncode == 1, out + err
    found = pd.read_parquet(tmp_path / "second" / "timings")
    assert set(found.status) == {"unavailable"}
    assert all(reason.startswith("device busy (jitmatrix-") and "flow run " in reason for reason in found.reason)
    bench.go()
    out, err = patient.communicate(timeout=DEADLINE_S)
    assert patient.returncode == 0, err
    assert '"status": "ok"' in out
    bench.expect(run, "Completed")
    assert bench.spans() == 2
    assert bench.limit().active_slots == 0


@pytest.fixture
def here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let this process take the device on the server; gives the name of its limit there."""
    monkeypatch.setattr(device, "POLL_S", 0.1)
    with temporary_settings({PREFECT_API_URL: bench.server.url}):
        with DeviceClaim("run A", lambda _: None).held(Backend.CPU):
            assert bench.limit().active_slots == 1
        yield bench.limit().name


def test_the_slot_of_a_run_that_crashed_is_free_at_once(bench: Bench, here: str) -> None:
    dead = bench.client.create_flow_run(flow(lambda: None, name="dead"), state=Crashed())
    granted = bench.client.increment_concurrency_slots_with_lease([here], 1, "concurrency", 3600)
    bench.client.update_flow_run_labels(dead.id, {device.LIMIT: here, device.LEASE: granted.json()["lease_id"]})
    lines: list[str] = []
    with DeviceClaim("run B", lines.append, wait_s=60).held(Backend.CPU):
        assert bench.limit().active_slots == 1
    assert bench.limit().active_slots == 0
    assert lines == []


def test_a_slot_of_which_the_server_has_lost_the_lease_is_taken_back(
    bench: Bench, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "ABANDONED_S", 0.5)
    bench.client.increment_concurrency_slots([here], 1, "concurrency")
    lines: list[str] = []
    with DeviceClaim("run B", lines.append, wait_s=60).held(Backend.CPU):
        assert bench.limit().active_slots == 1
    assert bench.limit().active_slots == 0
    assert lines[-1] == f"{here}: no run holds the slot that the server counts; it is free again"


def test_a_server_that_is_away_is_one_line_and_the_lock_of_the_machine_holds(bench: Bench) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        lines: list[str] = []
        away = {PREFECT_API_URL: f"http://127.0.0.1:{nobody.getsockname()[1]}/api"}
        with temporary_settings(away), DeviceClaim("run A", lines.append).held(Backend.CPU):
            assert "run A" in device_lock.holder("cpu")
    (line,) = lines
    assert re.search(r"limit jitmatrix-.*-cpu cannot be had \(.*\); the lock of this machine holds without it$", line)
