"""The spread of timings is read from rounds, from runs, and from cases in which nothing changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from flows.spread import CONTROLS, Error, _inverse_trigamma, between, moderated, pooled, spread, widened


def variances(rng: np.random.Generator, true: np.ndarray, freedom: int) -> list[float]:
    return list(true * rng.chisquare(freedom, true.size) / freedom)


def test_cases_that_scatter_alike_share_all_their_degrees_of_freedom() -> None:
    rng = np.random.default_rng(3)
    found, freedom = pooled(variances(rng, np.full(200, 0.05**2), 8), [8] * 200)
    assert found == pytest.approx(0.05**2, rel=0.1)
    assert freedom > 200


def test_cases_that_scatter_differently_lend_each_other_few() -> None:
    rng = np.random.default_rng(3)
    true = np.exp(rng.uniform(np.log(0.01), np.log(0.15), 200)) ** 2
    _, freedom = pooled(variances(rng, true, 8), [8] * 200)
    assert freedom < 4


def test_two_cases_tell_nothing_of_others_and_one_round_has_the_scatter_of_the_rest() -> None:
    assert pooled([0.01, 0.02], [8, 8]) == (0.0, 0.0)
    rng = np.random.default_rng(0)
    rounds = [([rng.normal(0, 0.05, 5)], [rng.normal(0, 0.05, 5)]) for _ in range(20)]
    alone = spread([np.array([0.0])], [np.array([0.1])], by_run=False)
    errors = moderated([*(spread(*pair, by_run=False) for pair in rounds), alone])
    assert alone.freedom == 0
    assert errors[-1].variance == pytest.approx(2 * 0.05**2, rel=0.3)
    assert moderated([alone]) == [Error(0.0, 0.0)]


@given(st.floats(min_value=1e-4, max_value=1e4))
def test_the_inverse_of_trigamma_is_its_inverse(value: float) -> None:
    assert polygamma(1, _inverse_trigamma(value)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("true", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("changed", [0, 12])
def test_the_spread_between_runs_is_read_from_controls_whatever_a_few_of_them_do(true: float, changed: int) -> None:
    rng = np.random.default_rng(0)
    own = 0.02
    found = []
    for _ in range(50):
        differences = rng.normal(0, np.hypot(own, true), 60)
        differences[:changed] += 0.5
        found.append(between(list(differences), [Error(own**2, 100.0)] * 60))
    assert np.sqrt(np.mean(found)) == pytest.approx(true, rel=0.15, abs=0.008)


def test_a_shift_that_all_controls_share_is_a_spread_between_runs() -> None:
    rng = np.random.default_rng(0)
    differences = list(rng.normal(0.06, 0.01, 60))
    assert between(differences, [Error(0.01**2, 100.0)] * 60) == pytest.approx(0.06**2, rel=0.5)


def test_too_few_controls_tell_nothing() -> None:
    assert between([0.0] * (CONTROLS - 1), [Error(1.0, 8.0)] * (CONTROLS - 1)) is None
    assert between([0.0] * 60, [Error(0.0, 0.0)] * 60) is None


def test_what_lies_between_runs_adds_to_the_error_and_is_less_well_known() -> None:
    error = Error(4e-4, 100.0)
    assert widened(error, 0.0, 60) is error
    wide = widened(error, 4e-4, 60)
    assert wide.variance == pytest.approx(8e-4)
    assert 12 < wide.freedom < 30


def test_where_a_side_has_several_runs_they_are_the_units() -> None:
    rng = np.random.default_rng(0)

    def side(runs: int) -> list[np.ndarray]:
        return [rng.normal(rng.normal(0, 0.05), 0.001, 5) for _ in range(runs)]

    errors = moderated([spread(side(4), side(1), by_run=True) for _ in range(60)])
    assert np.mean([each.variance for each in errors]) == pytest.approx(0.05**2 * (1 / 4 + 1), rel=0.25)
