"""A task per case, named like it, that says how it ended; one for several where cases are short; no samples held."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State, TaskRun

from flows.bench import bench
from flows.brief import Brief
from flows.progress import CURRENT
from flows.tasks import MOST, SHARE, Tasks, told
from kernels.case import Case
from kernels.frameworks import modes
from kernels.measurement import Measurement, Outcome, Reading, Status, Timing
from kernels.phase import Phase
from kernels.schedule import Turn
from tests.flows.test_bench import Saboteur

EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
JIT = Case("dense", "jax", "jit", "M", "float32")


def brief(case: Case = JIT, status: Status = Status.OK, reason: str | None = None, flag: str = "") -> Brief:
    """A case of five quiet rounds."""
    ns = {Phase.FIRST_CALL: 53_200_000, Phase.COMPILE: 36_400_000, Phase.STEADY: 2_130_000}
    flags = {flag: "why"} if flag else {}
    timings = {
        phase: Timing(phase, ((value,),) * 5, (1,) * 5, EVENTS, None, flags if phase is Phase.STEADY else {})
        for phase, value in ns.items()
    }
    planned = modes()[f"{case.framework}/{case.mode}"].phases
    return Brief.of(Measurement(case, status, reason, planned, timings, {}, {}, 5))


def cases(count: int) -> list[Case]:
    return [Case("dense", "numpy", "eager", f"S{number}", "float32") for number in range(count)]


def test_a_task_says_the_timings_of_its_case() -> None:
    state = told([brief()])
    assert (state.type.value, state.name) == ("COMPLETED", "Completed")
    assert state.message == "compile 36.4 ms · first call 53.2 ms · steady 2.13 ms, 5 rounds"


def test_a_case_of_one_round_is_told_in_the_singular() -> None:
    one = {phase: replace(timing, rounds=1) for phase, timing in brief().timings.items()}
    assert (told([replace(brief(), timings=one)]).message or "").endswith(", 1 round")


def test_a_flagged_case_is_named_so() -> None:
    state = told([brief(flag="noisy")])
    assert (state.type.value, state.name) == ("COMPLETED", "Flagged")
    assert "flagged noisy" in (state.message or "")


@pytest.mark.parametrize("status", [Status.WRONG, Status.FAILED, Status.TIMEOUT, Status.KILLED])
def test_a_case_that_is_not_ok_is_named_by_its_status_with_its_reason(status: Status) -> None:
    state = told([brief(status=status, reason="the reason")])
    assert (state.type.value, state.name, state.message) == ("FAILED", status.value.capitalize(), "the reason")


def test_a_shared_task_keeps_a_name_and_a_status_for_each_case() -> None:
    one, other = cases(2)
    state = told([brief(one), brief(other, Status.KILLED, "it died")])
    assert (state.type.value, state.name) == ("FAILED", "1 of 2 failed")
    lines = (state.message or "").splitlines()
    assert lines[0].startswith(f"{one.id}: ok: ")
    assert lines[1] == f"{other.id}: killed: it died"


def taken(count: int, case_s: float, tasks: Tasks, threads: int = 1, rounds: int = 1) -> None:
    """Take turns that wait so long, and hand each case over in its last."""
    handing_over = threading.Lock()

    def work(own: list[Case]) -> None:
        for number in range(rounds):
            for case in own:

                def step(case: Case = case, last: bool = number == rounds - 1) -> None:
                    time.sleep(case_s / rounds)
                    if last:
                        with handing_over:
                            tasks.done(brief(case))

                tasks.through(Turn(case, number), step)

    every = cases(count)
    # As the engine's own workers: a thread knows the flow run that it works for.
    workers = [threading.Thread(target=copy_context().run, args=(work, every[n::threads])) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    tasks.finish()


@pytest.fixture
def without_prefect(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Tasks that cost 20 ms; gives their states' messages."""
    messages: list[str] = []

    def record(name: str, work: Any, return_state: bool) -> State[Any]:
        time.sleep(0.02)
        state: State[Any] = work()
        messages.append(state.message or "")
        return state

    monkeypatch.setattr("flows.tasks.record", record)
    yield messages


def test_cases_that_last_long_have_a_task_each(without_prefect: list[str]) -> None:
    tasks = Tasks(1, print)
    taken(4, 1.0, tasks, threads=4)
    assert len(without_prefect) == 4
    assert tasks.overhead.cases == tasks.overhead.tasks == 4


@pytest.mark.parametrize("threads", [1, 3])
def test_short_cases_share_tasks_and_none_is_lost_or_told_twice(without_prefect: list[str], threads: int) -> None:
    tasks = Tasks(1, print)
    taken(120, 0.002, tasks, threads)
    assert 1 < tasks.overhead.tasks < 60
    assert tasks.overhead.cases == 120
    # The message of a task of one case does not name it: its task run does.
    named = Counter(line.partition(":")[0] for text in without_prefect if "\n" in text for line in text.splitlines())
    assert set(named.values()) == {1}
    assert len(named) + sum("\n" not in text for text in without_prefect) == 120


def test_a_group_is_as_large_as_keeps_the_share_and_no_larger_than_its_bound() -> None:
    tasks = Tasks(5, print)
    assert tasks.group() == 1
    tasks._recent.append(0.008)
    assert tasks.group() == MOST
    tasks._turns, tasks._turns_s = 100, 0.5
    assert tasks.group() == round(0.008 / (SHARE * 0.005 * 5)) + 1


def test_what_taking_a_turn_raises_is_raised_after_its_task(without_prefect: list[str]) -> None:
    def step() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        Tasks(1, print).through(Turn(JIT, 0), step)
    assert without_prefect == ["ValueError: a bug"]


def test_a_prefect_that_makes_no_task_costs_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("flows.tasks.record", away)
    notes: list[str] = []
    stepped: list[Case] = []
    tasks = Tasks(1, notes.append)
    for case in cases(3):
        tasks.through(Turn(case, 0), lambda case=case: stepped.append(case))  # type: ignore[misc]
    assert stepped == cases(3)
    assert notes == ["Prefect makes no task (ConnectionError: nobody listens); the run goes on without"]


def held() -> Counter[str]:
    """Count the objects that hold samples, in this whole process."""
    gc.collect()
    kinds = (Outcome, Reading, Timing, Measurement)
    return Counter(type(found).__name__ for found in gc.get_objects() if isinstance(found, kinds))


def task_runs(flow_run_id: object, count: int) -> list[TaskRun]:
    """Wait for so many task runs of a flow run to be told to the server, which happens in any order."""
    with get_client(sync_client=True) as client:
        wanted = FlowRunFilter.model_validate({"id": {"any_": [str(flow_run_id)]}})
        found: list[TaskRun] = []
        for _ in range(600):
            found = client.read_task_runs(flow_run_filter=wanted)
            if len(found) >= count and all(run.state and run.state.is_final() for run in found):
                break
            time.sleep(0.1)
    return found


@pytest.mark.usefixtures("shared_server")
def test_a_run_has_a_task_for_each_case_on_the_server_and_holds_no_sample_when_it_is_over(tmp_path: Path) -> None:
    before, listener = held(), Saboteur()
    listener.faults = {}
    token = CURRENT.set(listener)
    try:
        state = bench(
            matrix="smoke", kernel=["double", "total"], framework=["numpy"], rounds=3, budget_s=1.5,
            results=str(tmp_path), return_state=True,
        )  # fmt: skip
        assert state.is_completed(), state.message
        assert listener.summary is not None
        found = task_runs(state.state_details.flow_run_id, listener.summary.overhead.tasks)
    finally:
        CURRENT.reset(token)
    summary = listener.summary
    assert summary is not None
    assert sorted(run.name for run in found) == sorted(measured.case.id for measured in summary.measurements)
    for run in found:
        assert run.state is not None
        assert run.state.is_completed()
        assert "steady" in (run.state.message or "")
        assert (run.state.message or "").endswith("3 rounds")
    assert summary.overhead.cases == len(found)
    assert "a case" in str(summary.overhead)
    assert held() == before


@flow(persist_result=False)
def grouped(count: int, threads: int) -> int:
    """Take short cases; gives how many tasks they had."""
    tasks = Tasks(1, print)
    taken(count, 0.002, tasks, threads)
    return tasks.overhead.tasks


@pytest.mark.usefixtures("shared_server")
def test_on_a_real_server_short_cases_share_task_runs_that_tell_of_each_once() -> None:
    state = grouped(60, 2, return_state=True)
    found = task_runs(state.state_details.flow_run_id, state.result())
    told_of = [
        line.partition(":")[0] if "\n" in (run.state.message or "") else run.name
        for run in found
        if run.state
        for line in (run.state.message or "").splitlines()
    ]
    assert sorted(told_of) == sorted(case.id for case in cases(60))
    assert 0 < len(found) < 30
    # A task of a case and n more tells of n + 1.
    more = [run for run in found if run.name.endswith(" more")]
    for run in more:
        assert run.state is not None
        assert len((run.state.message or "").splitlines()) == int(run.name.split()[-2]) + 1
    assert more
