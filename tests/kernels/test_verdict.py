"""A verdict takes processes, not samples, as what varies: identical pairs are not called different, real ones are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kernels.statistics import Estimate, Verdict, _student, verdict

SMALLEST = 0.05
DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)

times = st.floats(min_value=1.0, max_value=1e9)
rounds = st.lists(st.lists(times, min_size=1, max_size=4), min_size=2, max_size=6)


def drawn(rng, between, factor=1.0, count=5, samples=8, within=0.02):
    """Rounds whose medians scatter by ``between`` around ``factor``: more than the samples of each do."""
    centres = factor * np.exp(rng.normal(0.0, between, count))
    return [list(centre * np.exp(rng.normal(0.0, within, samples))) for centre in centres]


def called(between, factor, pairs=400, count=5):
    rng = np.random.default_rng(0)
    words = [verdict(drawn(rng, between, count=count), drawn(rng, between, factor, count))[1] for _ in range(pairs)]
    return sum(word in DIFFERENT for word in words) / pairs


@pytest.mark.parametrize("between", [0.005, 0.03, 0.06, 0.2, 1.0])
@pytest.mark.parametrize("count", [2, 5, 10])
def test_of_identical_pairs_one_in_a_hundred_is_called_different_whatever_the_noise(between, count):
    # Four hundred pairs at 1 % give 4; more than 10 would come once in 300 such tests, and the seed is fixed.
    assert called(between, 1.0, count=count) <= 0.025


@pytest.mark.parametrize(("between", "count"), [(0.01, 5), (0.02, 5), (0.03, 10)])
def test_a_tenth_is_found_in_nine_of_ten_where_rounds_scatter_less(between, count):
    assert called(between, 1.1, count=count) >= 0.9


def test_what_is_slow_in_one_round_only_is_unclear():
    quiet = [[100.0, 101.0]] * 4
    assert verdict([*quiet, [100.5]], [*quiet, [300.0]])[1] is Verdict.UNCLEAR


def test_a_difference_that_does_not_matter_is_the_same_however_certain():
    baseline, candidate = ([[level + i / 10] for i in range(5)] for level in (100.0, 102.0))
    ratio, word = verdict(baseline, candidate)
    assert word is Verdict.SAME
    assert 1.0 < ratio.low < 1.02 < ratio.high < 1.05
    assert verdict(baseline, candidate, smallest=0.01)[1] is Verdict.SLOWER


def test_the_ratio_is_of_time_so_that_above_one_is_slower():
    baseline, candidate = ([[level + i / 10] for i in range(5)] for level in (100.0, 200.0))
    ratio, word = verdict(baseline, candidate)
    assert (ratio.value, word) == (pytest.approx(2.0, rel=0.01), Verdict.SLOWER)
    assert verdict(candidate, baseline)[1] is Verdict.FASTER


@pytest.mark.parametrize(("baseline", "candidate"), [([[1.0]], [[9.0], [9.1]]), ([[1.0, 1.1]], [[9.0]])])
def test_one_round_decides_nothing(baseline, candidate):
    ratio, word = verdict(baseline, candidate)
    assert (ratio.low, ratio.high, word) == (0.0, math.inf, Verdict.UNCLEAR)


def test_rounds_without_any_scatter_are_compared_as_they_are():
    assert verdict([[5.0]] * 3, [[5.0]] * 3) == (Estimate(1.0, 1.0, 1.0), Verdict.SAME)
    assert verdict([[5.0]] * 3, [[6.0]] * 3)[1] is Verdict.SLOWER


@given(rounds, rounds)
def test_what_is_slower_one_way_is_faster_the_other(baseline, candidate):
    there, word = verdict(baseline, candidate)
    back, opposite = verdict(candidate, baseline)
    assert there.low <= there.value <= there.high
    assert there.value == pytest.approx(1 / back.value)
    assert opposite is {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}.get(word, word)


@given(rounds, rounds, st.floats(min_value=1e-3, max_value=1e3))
def test_a_verdict_does_not_depend_on_the_unit(baseline, candidate, unit):
    scaled = [[[unit * ns for ns in round_] for round_ in side] for side in (baseline, candidate)]
    assert verdict(*scaled)[0].value == pytest.approx(verdict(baseline, candidate)[0].value)


@given(st.floats(min_value=0.5, max_value=0.995), st.floats(min_value=1.0, max_value=60.0))
def test_the_quantile_is_that_of_students_t(confidence, freedom):
    assert _student(confidence, freedom) == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-3)
