"""Rounds are resampled before samples; intervals hold their value; units cancel where they must."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.statistics import Drawn, Estimate, break_even, headline, per_call, resampled, speed_up

times = st.floats(10, 1e9)
rounds = st.lists(st.lists(times, min_size=1, max_size=12), min_size=1, max_size=6)


def around(middle: float, spread: float = 0.01, seed: int = 0, count: int = 3) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [list(middle * (1 + spread * rng.uniform(-1, 1, 9))) for _ in range(count)]


@given(rounds)
def test_the_interval_holds_the_value_and_lies_within_the_data(data):
    found = headline(data)
    everything = [ns for round_ in data for ns in round_]
    assert found.median.low <= found.median.value <= found.median.high
    assert min(everything) <= found.median.low
    assert found.median.high <= max(everything)
    assert found.minimum == min(everything) <= found.median.value
    assert found.spread >= 1


@given(rounds, st.sampled_from([2.0**k for k in range(-10, 11)]))
def test_a_headline_scales_with_its_unit(data, factor):
    scaled = [[ns * factor for ns in round_] for round_ in data]
    one, other = headline(data), headline(scaled)
    assert other.median.value == pytest.approx(one.median.value * factor)
    assert other.minimum == one.minimum * factor
    assert other.spread == pytest.approx(one.spread)


def test_an_interval_scales_with_its_unit_up_to_the_draw():
    data, factor = around(1000, 0.2), 1000.0
    one = headline(data).median
    other = headline([[ns * factor for ns in round_] for round_ in data]).median
    assert (other.high - other.low) / factor == pytest.approx(one.high - one.low, rel=0.5)


@given(rounds)
def test_equal_data_gives_equal_draws(data):
    assert np.array_equal(resampled(data), resampled([list(round_) for round_ in data]))


@given(rounds)
def test_the_value_is_the_median_of_the_rounds_medians(data):
    assert headline(data).median.value == np.median([np.median(round_) for round_ in data])


@given(st.lists(times, min_size=1, max_size=8), st.integers(1, 5))
def test_rounds_that_agree_to_the_last_bit_leave_no_interval(values, count):
    found = headline([[values[0]]] * count).median
    assert found == Estimate(values[0], values[0], values[0])


def test_rounds_that_differ_widen_the_interval_more_than_samples_that_differ():
    """Samples of one process are no independent samples of a case."""
    apart = [[100.0 + 10 * number] * 20 for number in range(5)]
    mixed = [[100.0, 110.0, 120.0, 130.0, 140.0] * 4] * 5
    between, within = headline(apart).median, headline(mixed).median
    assert between.high - between.low > 2 * (within.high - within.low)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    """Rounds with an offset of their own, as processes have."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(40):
        data = [list(1000 + rng.normal(0, 20) + rng.normal(0, 5, 8)) for _ in range(7)]
        found = headline(data).median
        covered += found.low <= 1000 <= found.high
    assert covered >= 34


@given(st.lists(st.lists(st.integers(1, 10**12), min_size=1), min_size=1, max_size=4), st.data())
def test_totals_are_divided_by_the_calls_of_their_round(samples, data):
    calls = data.draw(st.lists(st.integers(1, 10**6), min_size=len(samples), max_size=len(samples)))
    assert per_call(samples, calls) == [[ns / n for ns in round_] for round_, n in zip(samples, calls, strict=True)]


def drawn_one_by_one(rounds, resamples):
    """The two-level bootstrap as its definition says it: every median of every round, and one of them chosen."""
    rng = np.random.default_rng(zlib.crc32(np.concatenate([np.asarray(r, dtype=np.float64) for r in rounds]).tobytes()))
    picked = [rng.choice(np.asarray(r), size=(resamples, len(rounds), len(r))) for r in rounds]
    chosen = rng.integers(0, len(rounds), size=(resamples, len(rounds)))
    return [
        np.median([np.median(picked[chosen[draw][place]][draw][place]) for place in range(len(rounds))])
        for draw in range(resamples)
    ]


@settings(max_examples=20)
@given(st.lists(st.lists(st.floats(1, 1e9), min_size=1, max_size=40), min_size=1, max_size=6))
def test_the_fast_draw_is_the_draw_of_the_definition(data):
    assert np.array_equal(resampled(data, 50), drawn_one_by_one(data, 50))


def test_a_round_without_its_count_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        per_call([[1], [2]], [1])


@settings(max_examples=15)
@given(st.floats(1.5, 100))
def test_a_speed_up_is_above_one_for_the_faster(factor):
    fast, slow = around(1000, seed=1), around(1000 * factor, seed=2)
    up, down = speed_up(Drawn.of(fast), Drawn.of(slow)), speed_up(Drawn.of(slow), Drawn.of(fast))
    assert up.low > 1 > down.high
    assert up.value == pytest.approx(1 / down.value)
    assert up.low <= up.value <= up.high


@settings(max_examples=15)
@given(st.floats(1e3, 1e6), st.floats(1.5, 50), st.floats(2, 1e4))
def test_after_break_even_calls_both_have_cost_the_same(steady, factor, first_factor):
    first, eager = steady * first_factor, steady * factor
    found = break_even(*map(Drawn.of, (around(first, 0.001), around(steady, 0.001), around(eager, 0.001))))
    assert found is not None
    n = (first - steady) / (eager - steady)
    assert found.value == pytest.approx(max(1.0, n), rel=0.02)
    assert found.low <= found.value <= found.high
    if n > 1.1:
        assert first + (found.value - 1) * steady == pytest.approx(found.value * eager, rel=0.02)


@settings(max_examples=15)
@given(st.floats(0.01, 1.0))
def test_no_number_of_calls_pays_where_compiled_is_no_faster(factor):
    assert break_even(*map(Drawn.of, (around(1e6), around(1000), around(1000 * factor)))) is None


def test_no_number_of_calls_is_given_where_the_gain_may_be_nothing():
    assert break_even(*map(Drawn.of, (around(1e6), around(1000, 0.2, seed=1), around(1010, 0.2, seed=2)))) is None


def test_a_first_call_that_is_cheaper_than_eager_pays_at_once():
    found = break_even(*map(Drawn.of, (around(500), around(100), around(1000))))
    assert found == Estimate(1.0, 1.0, 1.0)
