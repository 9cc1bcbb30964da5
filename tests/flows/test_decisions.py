"""Identical pairs are not called different however many there are; real differences are found; verdicts follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from flows.decisions import FALSE_DISCOVERIES, Judgement, adjusted, errors, judge, verdict
from flows.spread import Error, spread
from kernels.statistics import Estimate, Verdict
from kernels.timing import GATE_ROUNDS

CASES = 60
MATTERS = np.log(1.05)


def called(rng, rounds, deviation, between=0.0, slowed=0):
    """Compare two runs of CASES cases, of which some take a tenth longer, and say which are called different."""
    shift = rng.normal(0, between, CASES)
    shift[:slowed] += np.log(1.1)
    pairs = [
        spread([rng.normal(0, deviation, rounds)], [rng.normal(move, deviation, rounds)], by_run=False)
        for move in shift
    ]
    uncertain, _ = errors(pairs, [0] * CASES, [place >= slowed for place in range(CASES)])
    tests = judge([pair.difference for pair in pairs], uncertain)
    return np.array(
        [
            test.q_value <= FALSE_DISCOVERIES and abs(pair.difference) >= MATTERS
            for pair, test in zip(pairs, tests, strict=True)
        ]
    )


@pytest.mark.parametrize(("rounds", "between"), [(5, 0.0), (5, 0.02), (16, 0.0), (16, 0.02)])
def test_a_comparison_of_sixty_identical_cases_alarms_once_in_a_hundred(rounds: int, between: float) -> None:
    rng = np.random.default_rng(0)
    # At 1 %, more than 6 of 200 would come once in 200 such tests; the seed is fixed. Welch's test of each case at 99 %
    # alarms in a third of them.
    assert sum(called(rng, rounds, 0.05, between).any() for _ in range(200)) <= 6


@pytest.mark.parametrize(("rounds", "deviation"), [(5, 0.02), (10, 0.03), (GATE_ROUNDS, 0.05)])
def test_a_tenth_is_found_in_nineteen_of_twenty(rounds: int, deviation: float) -> None:
    rng = np.random.default_rng(0)
    assert np.mean([called(rng, rounds, deviation, slowed=6)[:6].mean() for _ in range(60)]) >= 0.95


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=30))
def test_the_false_discovery_rate_is_that_of_benjamini_and_hochberg(p_values: list[float]) -> None:
    assert adjusted(np.array(p_values)) == pytest.approx(stats.false_discovery_control(p_values))


def test_what_was_not_tested_does_not_count() -> None:
    found = adjusted(np.array([np.nan, 0.01, 0.04, np.nan]))
    assert np.isnan(found[[0, 3]]).all()
    assert found[[1, 2]] == pytest.approx([0.02, 0.04])
    assert judge([1.0], [Error(0.0, 0.0)]) == [Judgement(None, None, Error(0.0, 0.0))]


def test_a_p_value_is_that_of_students_t() -> None:
    (found,) = judge([0.3], [Error(0.01, 8.0)])
    assert found.p_value == pytest.approx(2 * stats.t.sf(3.0, 8))
    exact = judge([0.0, 0.1], [Error(0.0, 8.0)] * 2)
    assert [each.p_value for each in exact] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("value", "low", "high", "q_value", "deviation", "says"),
    [
        (1.10, 1.06, 1.14, 0.001, 0.02, Verdict.SLOWER),
        (0.90, 0.87, 0.94, 0.001, 0.02, Verdict.FASTER),
        (1.02, 1.01, 1.03, 0.001, 0.005, Verdict.SAME),  # certain, and of no account
        (1.10, 0.98, 1.22, 0.2, 0.06, Verdict.UNCLEAR),
        (1.04, 1.02, 1.06, 0.001, 0.01, Verdict.UNCLEAR),  # may be more than matters
        (1.00, 0.97, 1.03, 0.9, 0.1, Verdict.UNCLEAR),  # the rounds agree by chance alone
        (1.00, 0.99, 1.01, None, 0.0, Verdict.UNCLEAR),
        (1.00, 0.0, float("inf"), 0.9, 0.001, Verdict.UNCLEAR),  # no round beside another: the interval is open
        (1.50, 0.0, float("inf"), 0.001, 0.001, Verdict.UNCLEAR),
    ],
)
def test_a_verdict_needs_a_difference_that_matters_and_that_is_called(
    value: float, low: float, high: float, q_value: float | None, deviation: float, says: Verdict
) -> None:
    test = Judgement(q_value, q_value, Error(deviation**2, 50.0))
    assert verdict(Estimate(value, low, high), test, 0.05) is says
