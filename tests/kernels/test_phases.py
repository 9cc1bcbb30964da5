"""Every phase is proven by the framework's own events: what was compiled, when, and whether a cache answered."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from kernels.assignment import Assignment, Role
from kernels.isolation import Isolation
from kernels.measurement import Status
from kernels.phase import Phase

AHEAD = (Phase.TRACE, Phase.LOWER, Phase.COMPILE)

COMPILERS = ["jax/jit", "numba/njit"]


def readings(outcome):
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    return {reading.phase: reading for reading in outcome.readings}


@pytest.fixture(scope="module")
def steady(run):
    """What a steady process of each form left behind; each is measured once."""
    done = {}

    def steady(kernel, mode, file=None):
        if (kernel, mode, file) not in done:
            done[kernel, mode, file] = run(kernel, mode, file)
        return done[kernel, mode, file]

    return steady


@pytest.mark.parametrize("kernel", ["decorated", "undecorated"])
def test_a_kernel_that_is_decorated_already_has_the_same_phases_as_one_that_is_not(steady, kernel):
    found = readings(steady(kernel, "jax/jit", "forms"))
    expected = readings(steady("dense", "jax/jit"))
    assert list(found) == list(expected)
    assert {phase: found[phase].events for phase in AHEAD} == {phase: expected[phase].events for phase in AHEAD}


def test_a_decorated_kernel_in_eager_mode_is_taken_out_of_its_jit(steady):
    found = readings(steady("decorated", "jax/eager", "forms"))
    assert not set(AHEAD) & found.keys()
    assert found.keys() == readings(steady("dense", "jax/eager")).keys()


@pytest.mark.parametrize("kernel", ["njit_cached", "plain_loop"])
def test_numbas_decorated_and_plain_forms_have_the_same_phases(steady, kernel):
    found = readings(steady(kernel, "numba/njit", "forms"))
    assert list(found) == list(readings(steady("total", "numba/njit")))


def test_each_stage_of_jax_has_one_event_of_its_own_and_no_other(steady):
    found = readings(steady("dense", "jax/jit"))
    counts = {phase: (e["traces"] > 0, e["lowerings"], e["compiles"]) for phase, e in events(found, AHEAD)}
    assert counts == {Phase.TRACE: (True, 0, 0), Phase.LOWER: (False, 1, 0), Phase.COMPILE: (False, 0, 1)}


def events(found, phases):
    return [(phase, found[phase].events) for phase in phases]


@pytest.mark.parametrize("mode", COMPILERS)
def test_a_cold_compilation_compiles_and_asks_no_cache(steady, mode):
    reading = readings(steady("total", mode))[Phase.COMPILE]
    assert (reading.events["compiles"], reading.events["cache_hits"], reading.events["cache_misses"]) == (1, 0, 0)


@pytest.mark.parametrize(("mode", "compiles"), [("jax/jit", 1), ("numba/njit", 0)])
def test_a_call_at_another_size_compiles_as_often_as_the_framework_must(steady, mode, compiles):
    assert readings(steady("total", mode))[Phase.RETRACE].events["compiles"] == compiles


@pytest.mark.parametrize("mode", ["jax/jit", "jax/eager", "numba/njit"])
def test_nothing_is_compiled_in_a_timed_loop(steady, mode):
    found = readings(steady("total", mode))
    for phase in {Phase.STEADY, Phase.PIPELINED, Phase.ENQUEUE} & found.keys():
        assert (found[phase].events["compiles"], found[phase].events["lowerings"]) == (0, 0)


@pytest.mark.parametrize("mode", COMPILERS)
def test_the_first_call_of_a_process_of_its_own_is_everything_at_once(run, mode):
    found = readings(run("total", mode, role=Role.FIRST_CALL))
    assert found.keys() - {Phase.TRANSFER} == {Phase.FIRST_CALL}
    assert found[Phase.FIRST_CALL].events["compiles"] == 1
    assert found[Phase.FIRST_CALL].events["cache_hits"] == 0


def test_an_eager_first_call_tells_its_compilations_too(run):
    assert readings(run("dense", "jax/eager", role=Role.FIRST_CALL))[Phase.FIRST_CALL].events["compiles"] > 1


@pytest.mark.parametrize("mode", COMPILERS)
def test_the_second_visit_to_a_cache_is_a_reload_and_the_first_is_none(run, mode, tmp_path):
    first, second = (
        readings(run("total", mode, role=Role.CACHE, cache_dir=str(tmp_path)))[Phase.RELOAD] for _ in range(2)
    )
    assert (first.events["cache_hits"], first.events["cache_misses"] > 0) == (0, True)
    assert (second.events["cache_hits"] > 0, second.events["cache_misses"]) == (True, 0)
    assert any(path.is_file() for path in Path(tmp_path).rglob("*"))


def test_a_program_of_a_cache_that_answers_wrong_is_no_reload(run, tmp_path):
    assert run("wrong_with_a_cache", "jax/jit", "faults", role=Role.FIRST_CALL).status is Status.OK
    cached = run("wrong_with_a_cache", "jax/jit", "faults", role=Role.CACHE, cache_dir=str(tmp_path))
    assert cached.status is Status.WRONG
    assert cached.reason.startswith("compiled against a persistent cache: output 0 is off in 1 of 1 values")


def test_the_stages_agree_with_jaxs_own_account(run):
    """The median of several processes, each in its own time: a busy machine stretches both alike."""
    ratios, differences = [], []
    for _ in range(5):
        found = readings(run("dense", "jax/jit"))
        ours = sum(found[phase].samples[0] for phase in AHEAD)
        theirs = sum(found[phase].event_ns for phase in AHEAD)
        ratios.append(ours / theirs)
        differences.append(ours - theirs)
        if abs(ratios[-1] - 1) <= 0.1 or abs(differences[-1]) <= 2e6:
            return
    assert abs(statistics.median(ratios) - 1) <= 0.1 or abs(statistics.median(differences)) <= 2e6


@pytest.mark.parametrize("mode", ["jax/jit", "jax/eager", "numba/njit", "numpy/eager"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dtype_that_was_asked_for_is_the_one_that_comes_out(run, mode, dtype):
    outcome = run("dense", mode, dtype=dtype)
    assert outcome.status is Status.OK
    assert outcome.facts["output_dtype"] == dtype
    if mode == "jax/jit":
        assert outcome.facts["x64"] is (dtype == "float64")


@pytest.mark.parametrize("mode", ["jax/jit", "numba/njit", "numpy/eager"])
def test_declared_inputs_are_consumed_and_the_calls_get_fresh_ones(run, mode):
    outcome = run("declared", mode, "mutates")
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    assert not [finding for finding in outcome.findings if not finding.phases]


def test_rows_told_apart_by_what_was_compiled(run, steady):
    one, same = (run("dense", "jax/jit").facts["program_hash"] for _ in range(2))
    assert one == same != steady("total", "jax/jit").facts["program_hash"]


@pytest.fixture
def spoiled(monkeypatch, tmp_path):
    """A user's settings that would change what is compiled, and a cache that other runs have filled."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"),
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_ENABLE_X64": "1",
        "JAX_DISABLE_JIT": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "NUMBA_DISABLE_JIT": "1",
        "NUMBA_OPT": "0",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_a_users_caches_and_settings_change_neither_events_nor_programs(spoiled, steady, case_of, tiny):
    with Isolation() as isolation:
        for kernel, mode, file in (("dense", "jax/jit", None), ("njit_cached", "numba/njit", "forms")):
            untouched = steady(kernel, mode, file)
            for _ in range(2):
                case = case_of(kernel, mode, file)
                outcome = isolation.run(Assignment(case, Role.STEADY, tiny))
                assert outcome.facts["program_hash"] == untouched.facts["program_hash"]
                found, expected = readings(outcome), readings(untouched)
                assert {p: found[p].events for p in found if p in AHEAD} == {
                    p: expected[p].events for p in expected if p in AHEAD
                }
                first = isolation.run(Assignment(case, Role.FIRST_CALL, tiny))
                assert readings(first)[Phase.FIRST_CALL].events["cache_hits"] == 0
        narrow = case_of("dense", "jax/jit", dtype="float32")
        assert isolation.run(Assignment(narrow, Role.STEADY, tiny)).facts["x64"] is False
    assert not list(spoiled.iterdir())
