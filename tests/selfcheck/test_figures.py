"""A figure is reached on its own side of the bound, and is printed with both."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfcheck.figure import Report, at_least, at_most

numbers = st.floats(min_value=-1e6, max_value=1e6)


@given(numbers, numbers)
def test_a_figure_is_reached_on_its_own_side_and_on_the_bound_itself(measured, bound):
    assert at_most("x", measured, bound).reached == (measured <= bound)
    assert at_least("x", measured, bound).reached == (measured >= bound)
    assert at_most("x", bound, bound).reached
    assert at_least("x", bound, bound).reached


@pytest.mark.parametrize("make", [at_most, at_least])
def test_what_is_not_a_number_is_missed(make):
    assert not make("x", math.nan, 1.0).reached


def test_the_line_says_what_was_measured_its_bound_and_the_verdict():
    assert at_most("overhead", 23.4567, 100, " ms").line == "reached  overhead: 23.46 ms (<= 100 ms)"
    assert at_least("gain", 1.5, 1.8).line == "MISSED   gain: 1.5 (>= 1.8)"


def test_a_report_tells_in_plain_values_whether_each_figure_was_reached():
    value = Report((at_most("a", 1, 2), at_least("b", 1, 2)), ("a note",)).to_json()
    assert [figure["reached"] for figure in value["figures"]] == [True, False]
    assert value["notes"] == ["a note"]
