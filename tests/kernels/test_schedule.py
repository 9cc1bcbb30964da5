"""Every case once per round, rounds in an order of their own, never back to back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.assignment import Role
from kernels.case import Case
from kernels.measurement import Outcome, Status
from kernels.phase import Phase
from kernels.schedule import Bench, Turn, turns
from kernels.timing import Sampling

JIT = Case("dense", "jax", "jit", "S", "float64")
EAGER = Case("sincos", "numpy", "eager", "S", "float64")

cases_of = st.integers(0, 12).map(lambda n: [replace(JIT, size=f"size{i}") for i in range(n)])
samplings = st.builds(Sampling, rounds=st.integers(1, 6), seed=st.integers(0, 2**32))


@given(cases_of, samplings)
def test_each_case_has_one_turn_in_each_round_and_rounds_follow_each_other(cases, sampling):
    ordered = turns(cases, sampling)
    assert [turn.round for turn in ordered] == sorted(turn.round for turn in ordered)
    for number in range(sampling.rounds):
        assert sorted(turn.case.size for turn in ordered if turn.round == number) == sorted(c.size for c in cases)


@given(cases_of.filter(lambda cases: len(cases) > 1), samplings)
def test_no_case_follows_itself(cases, sampling):
    assert all(one.case != other.case for one, other in itertools.pairwise(turns(cases, sampling)))


@given(cases_of, samplings)
def test_the_seed_decides_the_order(cases, sampling):
    assert turns(cases, sampling) == turns(cases, sampling)


def test_rounds_are_shuffled_apart():
    cases = [replace(JIT, size=f"size{i}") for i in range(10)]
    ordered = turns(cases, Sampling(rounds=3))
    orders = [[turn.case for turn in ordered if turn.round == number] for number in range(3)]
    assert orders[0] != orders[1] != orders[2]
    assert turns(cases, Sampling(rounds=3, seed=1)) != ordered


class Recorder:
    """Runs nothing: keeps the assignments, and ends the one that it is told to as killed."""

    def __init__(self, killed_at: int | None = None) -> None:
        self.assignments, self._killed_at = [], killed_at

    def run(self, assignment):
        self.assignments.append(assignment)
        killed = len(self.assignments) == self._killed_at
        return Outcome(assignment.role, Status.KILLED if killed else Status.OK, "killed" if killed else None)


def taken(cases, sampling, runner):
    bench = Bench(sampling, runner)
    try:
        done = [bench.take(turn) for turn in turns(cases, sampling)]
        caches = {a.cache_dir for a in runner.assignments if a.cache_dir}
        assert all(Path(cache).is_dir() for cache in caches)
        return bench, done, caches
    finally:
        bench.close()


def test_each_role_has_a_process_of_its_own_and_the_cache_is_visited_twice():
    runner = Recorder()
    _, _, caches = taken([JIT], Sampling(rounds=2), runner)
    roles = [(assignment.round, assignment.role) for assignment in runner.assignments]
    assert roles == [
        (0, Role.STEADY),
        (0, Role.FIRST_CALL),
        (0, Role.CACHE),
        (0, Role.CACHE),
        (1, Role.STEADY),
        (1, Role.FIRST_CALL),
    ]
    assert len(caches) == 1
    assert all((a.cache_dir is not None) == (a.role is Role.CACHE) for a in runner.assignments)
    assert not any(Path(cache).exists() for cache in caches)


def test_a_framework_without_a_compiler_has_no_cache_to_visit():
    runner = Recorder()
    taken([EAGER], Sampling(rounds=1), runner)
    assert [assignment.role for assignment in runner.assignments] == [Role.STEADY, Role.FIRST_CALL]


def test_cases_do_not_share_a_cache():
    runner = Recorder()
    _, _, caches = taken([JIT, replace(JIT, size="M")], Sampling(rounds=2), runner)
    assert len(caches) == 2


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_a_case_that_ended_otherwise_than_ok_takes_no_further_turn(killed_at):
    runner = Recorder(killed_at)
    bench, done, _ = taken([JIT], Sampling(rounds=3), runner)
    assert len(runner.assignments) == killed_at
    assert done == [True, False, False]
    measurement, outcomes = bench.merged(JIT)
    assert len(outcomes) == killed_at
    assert bench.merged(JIT) is None
    assert (measurement.status, measurement.reason) == (Status.KILLED, "killed")


def test_a_case_is_done_after_its_last_round():
    _, done, _ = taken([EAGER], Sampling(rounds=3), Recorder())
    assert done == [False, False, True]


def test_before_its_first_turn_a_case_has_no_measurement():
    bench = Bench(Sampling(), Recorder())
    try:
        assert bench.merged(JIT) is None
    finally:
        bench.close()


def test_a_real_run_gives_every_planned_phase_a_timing_per_round(isolation, tiny):
    case = Case("total", "numba", "njit", "S", "float64")
    bench = Bench(replace(tiny, rounds=2), isolation)
    try:
        for turn in turns([case], replace(tiny, rounds=2)):
            assert isinstance(turn, Turn)
            bench.take(turn)
        measurement, _ = bench.merged(case)
    finally:
        bench.close()
    assert measurement.status is Status.OK
    assert measurement.rounds == 2
    assert set(measurement.planned) - measurement.timings.keys() == {Phase.STARTUP}
    for phase in (Phase.COMPILE, Phase.FIRST_CALL, Phase.STEADY):
        assert len(measurement.timings[phase].samples) == 2
    assert len(measurement.timings[Phase.RELOAD].samples) == 1
