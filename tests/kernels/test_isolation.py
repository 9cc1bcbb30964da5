"""A case costs one row, whatever it does to its process, and the next case is unharmed."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels import link
from kernels.assignment import Assignment, Role
from kernels.isolation import OUTPUT_NBYTES, PAUSES_S, Isolation
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
        ("fails_to_compile", "python/plain", Status.FAILED, r" RuntimeError: C\+\+ .{350,} … main.*: no part\.h$"),
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


def test_a_kernel_stuck_in_c_is_gone_within_two_seconds_of_its_deadline(run):
    # The best of three: a busy machine may take a turn from any one of them.
    taken = [run("ignores_the_end", "python/plain", "faults", timeout_s=0.4).wall_ns / 1e9 for _ in range(3)]
    assert min(taken) < 2.4


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


def test_a_fork_server_that_answers_no_request_is_given_up_and_another_one_is_asked(monkeypatch, case_of, tiny):
    honest = Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny)
    with Isolation() as isolation:
        assert isolation.run(honest).status is Status.OK
        stuck = isolation._servers["python"]._process.pid
        os.kill(stuck, signal.SIGSTOP)
        monkeypatch.setattr(link, "START_S", 0.3)
        patient = threading.Timer(0.3 + PAUSES_S[0] / 2, monkeypatch.undo)
        patient.start()
        outcome = isolation.run(honest)
        patient.join()
        assert outcome.status is Status.OK, outcome.reason
        assert outcome.facts["starts"] > 1
        assert isolation._servers["python"]._process.pid != stuck


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


SLOW_IMPORT = """
import os, time
from pathlib import Path
Path(os.environ["TOLD"]).write_text(f"{os.getpid()}\\n")
time.sleep(600)
"""


@linux
@pytest.mark.parametrize(
    "work",
    [
        "from kernels.isolation import Isolation; kept = Isolation(); kept.prepare(['numba']); time.sleep(600)",
        "from kernels.case import Backend; from kernels import startup; startup.measure('numba', Backend.CPU, 1)",
        "from kernels.own import own; from kernels.reference import Reference; own(Reference.of(sys.argv[1]))",
    ],
    ids=["fork server", "startup", "kernel of the user's own"],
)
def test_no_process_that_is_importing_outlives_its_parent(tmp_path, work):
    slow = tmp_path / "numba.py"
    slow.write_text(SLOW_IMPORT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TOLD": str(tmp_path / "told")}
    parent = subprocess.Popen([sys.executable, "-Pc", f"import sys, time; {work}", str(slow)], env=environment)
    try:
        pids = told(tmp_path / "told")
        assert all(alive(pid) for pid in pids)
    finally:
        parent.kill()
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


def test_a_server_that_cannot_start_is_one_row_and_is_not_tried_again_for_every_case(monkeypatch, case_of, tiny):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Isolation() as isolation:
        outcome = isolation.run(Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny))
        again = isolation.run(Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny))
    assert outcome.status is again.status is Status.FAILED
    assert re.search(r"ended \(status 1\).*; tried 3 times$", outcome.reason)
    assert "tried" not in again.reason


@linux
def test_a_fork_server_that_is_gone_is_started_again_and_costs_no_case(case_of, tiny):
    honest = Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny)
    with Isolation() as isolation:
        assert isolation.run(honest).status is Status.OK
        os.kill(isolation._servers["python"]._process.pid, signal.SIGKILL)
        outcome = isolation.run(honest)
    assert (outcome.status, outcome.reason, outcome.facts["starts"]) == (Status.OK, None, 2)


@contextlib.contextmanager
def no_room_for_processes(pid: int) -> Iterator[None]:
    """Let a process fork no more, by a limit of its user, or of a control group where it is root's."""
    if os.geteuid() != 0:
        before = resource.prlimit(pid, resource.RLIMIT_NPROC)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (1, before[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_NPROC, before)
        return
    home = Path("/sys/fs/cgroup/pids")
    group = home / f"jitmatrix-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group of processes can be made here")
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "pids.max").write_text("1")
        yield
    finally:
        (home / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@linux
def test_a_machine_without_room_for_a_process_is_asked_again_and_has_room_then(case_of, tiny):
    honest = Assignment(case_of("honest", "python/plain", "faults"), Role.STEADY, tiny)
    with Isolation() as isolation, ThreadPoolExecutor(1) as pool:
        assert isolation.run(honest).status is Status.OK
        server = isolation._servers["python"]._process.pid
        with no_room_for_processes(server):
            asked = pool.submit(isolation.run, honest)
            time.sleep(PAUSES_S[0] / 2)
        outcome = asked.result(60)
        assert isolation._servers["python"]._process.pid == server
    assert (outcome.status, outcome.reason, outcome.facts["starts"]) == (Status.OK, None, 2)


@pytest.mark.parametrize(
    ("kernel", "mode", "status"),
    [("raises", "python/plain", Status.FAILED), ("wrong_shape", "numpy/eager", Status.WRONG)],
)
def test_a_case_that_fails_is_never_tried_again(kernel, mode, status, run):
    outcome = run(kernel, mode, "faults")
    assert outcome.status is status
    assert "starts" not in outcome.facts


@linux
def test_a_pinned_isolation_keeps_its_cases_on_its_processors(case_of, tiny):
    cpu = sorted(os.sched_getaffinity(0))[-1]
    with Isolation(cpus=[cpu]) as isolation:
        outcome = isolation.run(Assignment(case_of("tells_affinity", "python/plain", "faults"), Role.STEADY, tiny))
    assert f"affinity {{{cpu}}}" in outcome.output
