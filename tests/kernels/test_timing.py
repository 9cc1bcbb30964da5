"""The clock: settings, warm-up, calibration and samples, with calls whose duration the test decides."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import timing
from kernels.errors import UsageError
from kernels.timing import Loop, Sampling, calibrate, collector_off, sample, warm_up


class Clock:
    """A clock that moves only when the call under test says how long it took."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0
        monkeypatch.setattr(timing, "perf_counter_ns", lambda: self.now)

    def call_of(self, *durations):
        """Give a call that takes the durations in turn, the last for ever."""
        left = list(durations)

        def call():
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return self.now

        return call


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def loop_of(call, wait=None):
    return Loop(call, wait, lambda n: iter([()] * n))


@pytest.mark.parametrize("variant", ["blocked", "pipelined", "enqueue"])
@pytest.mark.parametrize("wait", [None, lambda output: output])
def test_each_variant_makes_n_calls_and_keeps_the_last_output(clock, variant, wait):
    loop = loop_of(clock.call_of(5, 7, 11), wait)
    assert getattr(loop, variant)(3) == 23
    assert loop.last == 23


def test_blocked_waits_inside_the_clock_after_every_call(clock):
    order = []

    def call():
        order.append("call")
        clock.now += 1

    def wait(output):
        order.append("wait")
        clock.now += 10

    assert loop_of(call, wait).blocked(3) == 33
    assert order == ["call", "wait"] * 3


def test_pipelined_waits_inside_the_clock_for_all_calls_together(clock):
    order = []

    def call():
        order.append("call")
        clock.now += 1

    def wait(output):
        order.append("wait")
        clock.now += 10

    assert loop_of(call, wait).pipelined(3) == 33
    assert order == ["call"] * 3 + ["wait"] * 3


def test_enqueue_leaves_waiting_outside_the_clock(clock):
    def wait(output):
        clock.now += 10
        return output

    assert loop_of(clock.call_of(1), wait).enqueue(3) == 3


def test_arguments_are_made_outside_the_clock(clock):
    def feed(n):
        clock.now += 1000
        return iter([(clock.now,)] * n)

    def call(x):
        clock.now += 2

    for variant in ("blocked", "pipelined", "enqueue"):
        assert getattr(Loop(call, None, feed), variant)(4) == 8


def test_warm_up_lasts_for_its_floor_in_calls_and_in_time(clock):
    sampling = Sampling(warmup_ms=1, warmup_calls=30)
    assert warm_up(loop_of(clock.call_of(1_000_000)), sampling) == 30
    assert warm_up(loop_of(clock.call_of(1_000)), replace(sampling, warmup_calls=0)) == 1000


def test_warm_up_goes_on_until_the_times_settle(clock):
    falling = [int(1e6 / (1 + i)) for i in range(100)]
    calls = warm_up(loop_of(clock.call_of(*falling, 10_000)), Sampling(warmup_ms=0, warmup_calls=0))
    assert 100 < calls <= 100 + 16


def test_warm_up_ends_at_the_rounds_budget_when_the_times_never_settle(clock):
    sampling = Sampling(rounds=1, budget_s=0.01, warmup_ms=1)
    rising = [1000 * i for i in range(1, 10_000)]
    loop = loop_of(clock.call_of(*rising))
    warm_up(loop, sampling)
    assert sampling.round_budget_ns <= clock.now <= sampling.round_budget_ns + rising[-1]


def test_a_call_longer_than_the_budget_is_made_once_to_warm_up(clock):
    assert warm_up(loop_of(clock.call_of(10**12)), Sampling()) == 1


@given(st.integers(1, 10**9), st.floats(0.01, 100), st.integers(1, 2**20))
def test_calibration_doubles_until_a_sample_lasts_long_enough(per_call, min_sample_ms, most):
    n = calibrate(lambda n: n * per_call, Sampling(min_sample_ms=min_sample_ms), most)
    least = min_sample_ms * 1e6
    assert 1 <= n <= most
    assert n == most or n * per_call >= least
    assert n == 1 or (n // 2) * per_call < least


@given(st.integers(1, 10**8), st.integers(1, 10**9), st.integers(1, 20))
def test_samples_fill_the_budget_and_are_never_too_few(per_call, budget, least):
    now = [0]

    def call(n):
        now[0] += n * per_call
        return n * per_call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "perf_counter_ns", lambda: now[0])
        samples = sample(call, max(1, budget // per_call // 50), budget, least)
    one = samples[0]
    assert samples == [one] * len(samples)
    assert len(samples) == max(least, -(-budget // one))


def test_samples_are_in_order_and_unfiltered(clock):
    assert sample(loop_of(clock.call_of(5, 900, 1, 7)).blocked, 1, 900, 4) == [5, 900, 1, 7]


def test_a_sleep_is_timed_as_it_is_whatever_the_inner_call_count():
    loop = loop_of(lambda: time.sleep(0.002))
    assert all(loop.blocked(n) >= n * 2_000_000 for n in (1, 3))


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_off_inside_and_as_before_outside(was_on):
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(KeyError), collector_off():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


samplings = st.builds(
    Sampling,
    rounds=st.integers(1, 100),
    budget_s=st.floats(1e-3, 1e4),
    min_sample_ms=st.floats(1e-3, 1e4),
    min_samples=st.integers(1, 100),
    warmup_ms=st.floats(0, 1e4),
    warmup_calls=st.integers(0, 1000),
    timeout_s=st.floats(0.1, 1e6),
    memory_mb=st.integers(0, 10**6),
    cold=st.booleans(),
    seed=st.integers(0, 2**63),
)


@given(samplings)
def test_settings_cross_the_process_boundary_unchanged(sampling):
    assert Sampling.from_mapping(json.loads(json.dumps(sampling.to_json())), "here") == sampling


@given(samplings)
def test_the_rounds_share_the_budget(sampling):
    assert sampling.round_budget_ns * sampling.rounds == pytest.approx(sampling.budget_s * 1e9, abs=sampling.rounds)


@pytest.mark.parametrize("name", [f.name for f in fields(Sampling) if f.name != "cold"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "5", None, True])
def test_a_setting_that_cannot_be_is_one_line_that_names_it(name, value):
    with pytest.raises(UsageError, match=rf"sampling {name} = ") as error:
        Sampling(**{name: value})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"round": 3}, "did you mean rounds"),
        ({"rounds": 2.5}, "give a whole number"),
        ({"rounds": 0}, "at least 1"),
        ({"cold": 1}, "sampling cold = 1"),
        ({"cold": "yes"}, "sampling cold = 'yes'"),
    ],
)
def test_settings_of_a_file_are_refused_with_the_file(value, words):
    with pytest.raises(UsageError) as error:
        Sampling.from_mapping(value, "nightly.toml")
    assert words in str(error.value)
    assert "nightly.toml" in str(error.value)
