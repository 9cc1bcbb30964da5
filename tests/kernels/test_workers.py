"""Workers take turns side by side: the same rows, never two turns of one case at once, and all ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import machine, workers
from kernels.case import Backend, Case
from kernels.errors import UsageError
from kernels.isolation import Isolation
from kernels.schedule import Bench, Turn, turns
from kernels.timing import Sampling
from kernels.workers import Workers
from tests.kernels.conftest import case_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLING = Sampling(rounds=2, budget_s=0.02, min_sample_ms=1.0, warmup_ms=2.0, timeout_s=60.0)
CASES = [
    case_of(kernel, "numpy/eager", dtype=dtype) for kernel in ("sincos", "dense") for dtype in ("float32", "float64")
]

several = pytest.mark.skipif(len(workers.cores()) < 2, reason="one core alone is in the affinity")


def measured(runner, ordered):
    with closing(Bench(SAMPLING, runner)) as bench:
        finished = [turn.case for turn, done in ordered(bench) if done]
        return finished, {case: bench.merged(case)[0] for case in CASES}


def structure(measurement):
    return (
        measurement.status,
        measurement.rounds,
        {phase: (len(timing.samples), len(timing.inner_calls)) for phase, timing in measurement.timings.items()},
    )


@pytest.fixture(scope="module")
def alone():
    with Isolation() as isolation:
        return measured(isolation, lambda bench: [(turn, bench.take(turn)) for turn in turns(CASES, SAMPLING)])


@pytest.mark.parametrize("count", [None, 1, pytest.param(2, marks=several)])
def test_any_number_of_workers_gives_the_rows_of_one_isolation(alone, count):
    with Workers(count) as pool:
        finished, rows = measured(pool, lambda bench: pool.take(turns(CASES, SAMPLING), bench.take))
    assert sorted(finished, key=CASES.index) == CASES
    assert {case: structure(row) for case, row in rows.items()} == {c: structure(row) for c, row in alone[1].items()}


def test_one_worker_takes_the_turns_in_their_order(alone):
    ordered = turns(CASES, SAMPLING)
    with Workers() as pool:
        assert [turn for turn, _ in pool.take(ordered, lambda turn: None)] == ordered


@several
def test_each_worker_has_a_core_of_its_own_and_one_thread():
    with Workers(2) as pool:
        ran = [isolation._cpus for isolation in pool._isolations]
        variables = [isolation._variables for isolation in pool._isolations]
    assert len({tuple(cpus) for cpus in ran}) == 2
    assert all(len(cpus) == 1 for cpus in ran)
    assert {environment["OMP_NUM_THREADS"] for environment in variables} == {"1"}


@several
@given(st.lists(st.integers(0, 3), max_size=20))
def test_two_turns_of_one_case_never_run_at_once(numbers):
    cases = [Case(f"k{number}", "numpy", "eager", "S", "float32") for number in range(4)]
    ordered = [Turn(cases[number], position) for position, number in enumerate(numbers)]
    running, lock, together = set(), threading.Lock(), []

    def take(turn):
        with lock:
            together.append(turn.case in running)
            running.add(turn.case)
        time.sleep(0.0005)
        with lock:
            running.discard(turn.case)
        return turn.round

    with Workers(2) as pool:
        taken = list(pool.take(ordered, take))
    assert not any(together)
    assert sorted(result for _, result in taken) == list(range(len(numbers)))
    assert all(turn.round == result for turn, result in taken)


def test_nothing_runs_while_the_caller_has_a_turn_in_hand():
    begun = []
    ordered = turns(CASES, SAMPLING)
    with Workers() as pool:
        for position, _ in enumerate(pool.take(ordered, begun.append), start=1):
            time.sleep(0.01)
            assert len(begun) == position


def test_more_workers_than_cores_are_refused_in_one_line():
    most = len(machine.affinity())
    for count in (0, -1, most + 1):
        with pytest.raises(UsageError, match=rf"^--workers {count}: .*give a number from 1 to \d+$"):
            Workers(count)


def test_the_quota_of_the_control_group_counts_too(monkeypatch):
    monkeypatch.setattr(machine, "cpu_quota", lambda: 0.5)
    monkeypatch.setattr(workers, "cores", lambda: [0, 1, 2, 3])
    with pytest.raises(UsageError, match=r"grants the time of 0\.5; give a number from 1 to 1"):
        Workers(2)


def test_a_system_that_pins_no_process_has_no_workers(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    for count in (1, 2):
        with pytest.raises(UsageError, match="cannot pin a process"):
            Workers(count)
    with Workers() as pool:
        assert len(pool._isolations) == 1


def test_workers_are_refused_before_anything_is_started(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: [0, 1])
    monkeypatch.setattr(machine, "cpu_quota", lambda: None)
    workers.check(None, [Backend.GPU])
    workers.check(1, [Backend.GPU])
    workers.check(2, [Backend.CPU])
    with pytest.raises(UsageError, match="share a device"):
        workers.check(2, [Backend.CPU, Backend.TPU])
    with pytest.raises(UsageError, match="give a number from 1 to 2"):
        workers.check(3, [])


def test_two_threads_of_a_core_are_one_core(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "affinity", lambda: [0, 1, 2, 3])
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert workers.cores(tmp_path) == [0, 1]


@several
def test_several_workers_refuse_to_share_a_device():
    turn = Turn(Case("dense", "jax", "jit", "S", "float32", backend=Backend.GPU), 0)
    with Workers(2) as pool, pytest.raises(UsageError, match="share a device"):
        next(pool.take([turn], lambda turn: None))


def test_a_failing_turn_reaches_the_caller_and_ends_the_others():
    def take(turn):
        raise ValueError(turn.case.id)

    with pytest.raises(ValueError, match="numpy-eager"), Workers() as pool:
        list(pool.take(turns(CASES, SAMPLING), take))


SLEEPER = """
import sys
sys.path.insert(0, ".")
from tests.kernels.test_workers import *
cases = [case_of("slow", "numpy/eager", "hungry", dtype=dtype) for dtype in ("float32", "float64")]
with Workers(int(sys.argv[1]) or None) as pool, closing(Bench(SAMPLING, pool)) as bench:
    print("began", flush=True)
    for turn, done in pool.take(turns(cases, SAMPLING), bench.take):
        print("taken", flush=True)
"""


def with_mark(mark):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("count", ["0", pytest.param("2", marks=several)])
def test_ctrl_c_ends_every_worker_and_every_process(tmp_path, count):
    mark, began = f"JITMATRIX_TEST_MARK={uuid.uuid4()}", tmp_path / "began"
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value, "JITMATRIX_TEST_FILE": str(began), "JITMATRIX_TEST_SLEEP_S": "60"}
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, count], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not began.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert began.exists()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert errors.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert with_mark(mark) == []


def test_an_interrupted_turn_leaves_no_outcome(tmp_path, monkeypatch):
    began = tmp_path / "began"
    monkeypatch.setenv("JITMATRIX_TEST_FILE", str(began))
    monkeypatch.setenv("JITMATRIX_TEST_SLEEP_S", "60")
    case = case_of("slow", "numpy/eager", "hungry")

    def interrupt():
        while not began.exists():
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    pool = Workers()
    with closing(Bench(SAMPLING, pool)) as bench:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt), pool:
            list(pool.take(turns([case], SAMPLING), bench.take))
        assert bench.merged(case) is None
