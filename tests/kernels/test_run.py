"""Every cell of a plan gives one row, whatever becomes of the run."""

from __future__ import annotations

import pytest

from kernels import roofline, startup
from kernels.case import Backend, Case, Plan, Skip
from kernels.errors import UnavailableError
from kernels.frameworks.numba import Numba
from kernels.measurement import Reading, Status
from kernels.phase import Phase
from kernels.run import Run
from kernels.schedule import Bench
from kernels.timing import Sampling
from kernels.workers import Workers

TINY = Sampling(rounds=2, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0)

A = Case("double", "python", "plain", "S", "float64")
B = Case("double", "python", "lru_cache", "S", "float64")
MISSING = Case("double", "numba", "njit", "S", "float64")
SKIPPED = Case("double", "python", "plain", "S", "float32")


@pytest.fixture(autouse=True)
def without_a_roofline(monkeypatch):
    monkeypatch.setattr(roofline, "measure", lambda backend, threads: {})


def ids(rows):
    return [row.case.id for row in rows]


def test_each_case_is_handed_over_once_and_settled_rows_are_known_before(monkeypatch):
    monkeypatch.setattr(Numba, "MODULE", "a_module_that_nobody_has")
    run = Run(Plan((A, B, MISSING), (Skip(SKIPPED, "float64 only"),)), TINY)
    rows = []

    run.measure(rows.append)
    run.leave(rows.append, "never said")

    assert sorted(ids(rows)) == sorted([A.id, B.id])
    assert {row.status for row in rows} == {Status.OK}
    assert {row.rounds for row in rows} == {2}
    assert sorted(ids(run.settled)) == sorted([MISSING.id, SKIPPED.id])


def test_startup_is_measured_once_for_each_framework_and_backend_that_has_cases(monkeypatch):
    asked = []

    def measure(framework, backend, threads):
        asked.append((framework, backend))
        return Reading(Phase.STARTUP, (1,), 1, {})

    monkeypatch.setattr(startup, "measure", measure)

    Run(Plan((A, B), ()), TINY).measure(lambda row: None)

    assert asked == [("python", Backend.CPU)]


def test_what_of_the_machine_cannot_be_measured_is_told_with_its_reason(monkeypatch):
    def fails(*_):
        raise UnavailableError("no end after 9 s")

    monkeypatch.setattr(roofline, "measure", fails)
    monkeypatch.setattr(startup, "measure", fails)
    run, rows = Run(Plan((A,), ()), TINY), []

    run.measure(rows.append)

    assert run.notes == [
        "no roofline for cpu: no end after 9 s; times are not held against the machine",
        "no startup of python on cpu: no end after 9 s",
    ]
    assert run.rooflines == {Backend.CPU: {}}
    assert [row.status for row in rows] == [Status.OK]


def test_the_caches_go_when_the_workers_have_ended(monkeypatch):
    ended = []
    leave, close = Workers.__exit__, Bench.close
    monkeypatch.setattr(Workers, "__exit__", lambda self, *error: (leave(self, *error), ended.append("workers"))[0])
    monkeypatch.setattr(Bench, "close", lambda self: (ended.append("caches"), close(self))[1])

    Run(Plan((A,), ()), TINY).measure(lambda row: None)

    assert ended == ["workers", "caches"]


def test_an_interruption_leaves_the_rounds_that_were_measured_and_names_the_rest():
    run = Run(Plan((A, B), ()), Sampling(rounds=50, budget_s=0.05, min_sample_ms=0.1, warmup_ms=0.0))
    turns = []
    rows = []

    def interrupted(turn, step):
        if turns and turn.case != turns[0].case:
            raise KeyboardInterrupt
        turns.append(turn)
        step()

    with pytest.raises(KeyboardInterrupt):
        run.measure(rows.append, through=interrupted)
    assert rows == []
    run.leave(rows.append, "the run was interrupted")

    measured = {row.case.id: (row.status, row.rounds, row.reason) for row in rows}
    first = turns[0].case
    (other,) = {A, B} - {first}
    assert measured[first.id] == (Status.OK, len(turns), None)
    assert measured[other.id] == (Status.SKIPPED, 0, "the run was interrupted")


def test_what_the_time_limit_cuts_off_is_named():
    run = Run(Plan((A, B), ()), TINY)
    rows = []

    run.measure(rows.append, limit_s=0.0)
    run.leave(rows.append, "the time was over")

    assert sorted(ids(rows)) == sorted([A.id, B.id])
    assert "the time was over" in {row.reason for row in rows}
    assert sum(row.rounds for row in rows) <= 1


def test_backends_follow_one_another_and_a_device_that_is_not_there_costs_its_own_rows():
    absent = Case("double", "jax", "jit", "S", "float64", backend=Backend.TPU)
    run = Run(Plan((absent, A), ()), TINY)
    rows = [*run.settled]

    run.measure(rows.append)

    assert {row.case.id: row.status for row in rows} == {absent.id: Status.UNAVAILABLE, A.id: Status.OK}
