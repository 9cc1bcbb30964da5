"""Ratios of pairs give one ratio, whose interval is that of Student's t on logarithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from selfcheck.containers import main, paired

ratios = st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=2, max_size=20)


@given(ratios)
def test_the_interval_is_that_of_a_t_test(values):
    # Equal values have no scatter, of which a t-test warns.
    values = [*values, values[0] * 1.01]
    expected = stats.ttest_1samp(np.log(values), 0).confidence_interval(0.95)
    found = paired(values)
    assert (found.low, found.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert found.low <= found.value <= found.high


@given(ratios)
def test_either_side_can_be_the_baseline(values):
    there, back = paired(values), paired([1 / value for value in values])
    assert (back.value, back.low, back.high) == pytest.approx((1 / there.value, 1 / there.high, 1 / there.low))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["ratios"], "unknown figure 'ratios' (selfcheck.containers): choose from size, rebuild, start, ratio"),
        (["ratio", "--pairs", "1"], "--pairs 1: give 2 or more; one pair has no interval"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_line(arguments, line, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert (said.startswith(f"selfcheck: {line}"), said.count("\n")) == (True, 1)
