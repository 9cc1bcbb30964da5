"""A case costs one row, whatever it does to its process, and the next case is unharmed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernels import link
from kernels.assignment import Assignment, Role
from kernels.isolation import OUTPUT_NBYTES, Isolation, environment
from kernels.measurement import Status
from kernels.phase import Phase

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def next_case_is_unharmed(run, isolation):
    """After each test, an honest case of the same fork servers is measured as ever."""
    yield
    outcome = run("honest", "python/plain", "faults")
    assert (outcome.status, outcome.reason) == (Status.OK, None)


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone_within(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def told(path: Path) -> list[int]:
    """Wait for the ids that a kernel wrote."""
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "the kernel told nothing"
        time.sleep(0.02)
    return [int(pid) for pid in path.read_text().split()]


def test_an_honest_case_leaves_readings_facts_and_its_peak_memory(run):
    outcome = run("honest", "python/plain", "faults")
    assert outcome.status is Status.OK
    assert [reading.phase for reading in outcome.readings] == [Phase.STEADY]
    assert outcome.peak_nbytes > 2**20
    assert outcome.output == ""
    assert outcome.wall_ns > 0


@pytest.mark.parametrize(
    ("kernel", "mode", "status", "reason"),
    [
        ("raises", "python/plain", Status.FAILED, r"ArithmeticError: two lines of trouble"),
        ("returns_nothing", "numpy/eager", Status.WRONG, r"nothing to compare: 0 outputs"),
        ("wrong_shape", "numpy/eager", Status.WRONG, r"shape \(2, 1000\), the reference \(1000,\)"),
        ("wrong_dtype", "numpy/eager", Status.WRONG, r"output 0 is float32, the case says float64"),
        ("wrong_values", "numpy/eager", Status.WRONG, r"off in 1 of 1000 values"),
        ("exits", "python/plain", Status.FAILED, r"exited the interpreter \(status 3\)"),
        ("exits_at_once", "python/plain", Status.FAILED, r"exited with status 0 before it was done"),
        ("interrupts", "python/plain", Status.FAILED, r"exited with status 70"),
        ("recurses", "python/plain", Status.FAILED, r"RecursionError"),
        ("segfaults", "python/plain", Status.KILLED, r"SIGSEGV"),
        ("aborts", "python/plain", Status.KILLED, r"SIGABRT"),
        ("kills_itself", "python/plain", Status.KILLED, r"SIGKILL"),
        ("writes_everywhere", "python/plain", Status.FAILED, r"wrote into the harness's own pipe"),
        ("closes_everything", "python/plain", Status.FAILED, r"before it was done"),
    ],
)
def test_a_fault_is_one_row_with_its_reason_in_one_line(run, kernel, mode, status, reason):
    outcome = run(kernel, mode, "faults")
    assert outcome.status is status
    assert re.search(reason, outcome.reason), outcome.reason
    assert "\n" not in outcome.reason


def test_the_traceback_of_a_kernel_stands_in_the_tail_of_its_output(run):
    assert "in raises" in run("raises", "python/plain", "faults").output


@pytest.mark.parametrize("kernel", ["loops_for_ever", "pauses", "ignores_the_end", "stops_itself"])
def test_a_kernel_that_never_returns_is_ended_at_its_deadline(run, kernel):
    outcome = run(kernel, "python/plain", "faults", timeout_s=0.4)
    assert outcome.status is Status.TIMEOUT
    assert outcome.reason == "no end after 0.4 s; the process was ended"
    assert outcome.wall_ns >= 0.4e9


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("allocates", "python/plain"),
        ("allocates_in_c", "python/plain"),
        ("allocates_on_device", "jax/eager"),
        ("allocates_in_numba", "numba/njit"),
    ],
)
def test_a_kernel_that_allocates_without_end_is_killed_as_out_of_memory(run, kernel, mode):
    outcome = run(kernel, mode, "faults", memory_mb=400)
    assert outcome.status is Status.KILLED
    assert "out of memory" in outcome.reason


def test_of_megabytes_of_output_the_last_is_kept(run):
    outcome = run("prints_megabytes", "python/plain", "faults")
    assert outcome.status is Status.OK
    assert outcome.output.endswith("the last words")
    assert len(outcome.output.encode()) <= OUTPUT_NBYTES + 8


def test_threads_left_behind_do_not_hold_the_case_up(run):
    outcome = run("leaves_threads", "python/plain", "faults")
    assert outcome.status is Status.OK
    assert outcome.wall_ns < 60e9


@linux
def test_children_left_behind_end_with_the_case(run):
    outcome = run("leaves_children", "python/plain", "faults")
    assert outcome.status is Status.OK
    pids = [int(pid) for pid in outcome.output.split()[1:]]
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


def test_a_copy_of_the_process_that_returns_to_the_harness_reports_nothing(run):
    outcome = run("returns_twice", "python/plain", "faults")
    assert outcome.status is Status.OK
    assert len(outcome.readings) == 1


@linux
def test_a_killed_fork_server_costs_one_row(tmp_path, monkeypatch, case_of, tiny):
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    with Isolation() as isolation:
        outcome = isolation.run(Assignment(case_of("kills_the_server", "python/plain", "faults"), Role.STEADY, tiny))
        assert outcome.status is Status.FAILED
        assert "the fork server of python ended (status -9)" in outcome.reason
        case, server, near, *_ = told(tmp_path / "told")
        assert gone_within([case, server, near], 5)
        honest = Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny)
        assert isolation.run(honest).status is Status.OK


def test_a_fork_server_that_no_longer_answers_is_ended(run):
    outcome = run("stops_the_server", "python/plain", "faults", timeout_s=0.4)
    assert outcome.status is Status.TIMEOUT
    assert outcome.reason.startswith("no end after 0.4 s; the process was ended with its fork server")


def test_what_was_timed_before_the_fork_server_died_is_kept(run):
    outcome = run("kills_the_server_late", "python/plain", "faults")
    assert outcome.status is Status.FAILED
    assert "the fork server of python ended (status -9)" in outcome.reason
    assert [reading.phase for reading in outcome.readings] == [Phase.STEADY]
    assert outcome.facts["warmup_calls"] >= 1


def test_a_fork_server_that_answers_no_request_is_given_up(monkeypatch, case_of, tiny):
    honest = Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny)
    with Isolation() as isolation:
        assert isolation.run(honest).status is Status.OK
        os.kill(isolation._servers["python"]._process.pid, signal.SIGSTOP)
        monkeypatch.setattr(link, "START_S", 0.3)
        outcome = isolation.run(honest)
        assert outcome.status is Status.FAILED
        assert outcome.reason == "the fork server of python did not start a process within 0.3 s"
        monkeypatch.undo()
        assert isolation.run(honest).status is Status.OK


@linux
def test_a_signal_without_a_name_is_told_by_its_number(run):
    outcome = run("ends_by_a_signal_without_a_name", "python/plain", "faults")
    assert outcome.status is Status.KILLED
    assert outcome.reason == f"the process died by signal {signal.SIGRTMIN + 3}"


PARENT = """
    import sys
    from kernels.assignment import Assignment, Role
    from kernels.case import Case
    from kernels.isolation import Isolation
    from kernels.timing import Sampling

    case = Case("tell_and_wait", "python", "plain", "S", "float64", source=sys.argv[1])
    with Isolation() as isolation:
        isolation.run(Assignment(case, Role.STEADY, Sampling()))
"""


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_its_parent(tmp_path, cheats, number):
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(cheats / "faults.py")]
    parent = subprocess.Popen(command, env={**os.environ, "TOLD": str(tmp_path / "told")})
    try:
        pids = told(tmp_path / "told")
        assert len(pids) == 5
        assert all(alive(pid) for pid in pids)
    finally:
        parent.send_signal(number)
        parent.wait()
    assert gone_within(pids, 5)


@linux
def test_closing_leaves_no_server(case_of, tiny):
    with Isolation() as isolation:
        isolation.prepare(["python", "numpy"])
        outcome = isolation.run(Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny))
        assert outcome.status is Status.OK
        servers = [server._process.pid for server in isolation._servers.values()]
    assert len(servers) == 2
    assert not any(alive(pid) for pid in servers)


def test_a_server_that_cannot_start_is_one_row(monkeypatch, case_of, tiny):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Isolation() as isolation:
        outcome = isolation.run(Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny))
    assert outcome.status is Status.FAILED
    assert "ended (status 1)" in outcome.reason


def test_the_users_own_settings_do_not_reach_a_case(monkeypatch):
    names = ("JAX_ENABLE_X64", "JAX_COMPILATION_CACHE_DIR", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "OPENBLAS_CORETYPE")
    for name in names:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOME", "/somewhere")
    variables = environment(threads=2)
    assert not set(names) & variables.keys()
    assert variables["HOME"] == "/somewhere"
    assert variables["OMP_NUM_THREADS"] == variables["NUMBA_NUM_THREADS"] == "2"


def test_one_thread_is_said_to_every_library():
    variables = environment(threads=1)
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
    assert "--xla_cpu_multi_thread_eigen=false" in variables["XLA_FLAGS"]


@linux
def test_a_pinned_isolation_keeps_its_cases_on_its_processors(case_of, tiny):
    cpu = sorted(os.sched_getaffinity(0))[-1]
    with Isolation(cpus=[cpu]) as isolation:
        outcome = isolation.run(Assignment(case_of("tells_affinity", "python/plain", "faults"), Role.STEADY, tiny))
    assert f"affinity {{{cpu}}}" in outcome.output
