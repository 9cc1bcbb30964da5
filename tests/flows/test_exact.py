"""Parameters that are exactly JSON: what a server would change without a word is refused, by its path."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.exact import LIMIT_NBYTES, exact
from kernels.errors import UsageError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, PLAIN, max_size=4))
def test_what_is_taken_arrives_as_it_was_sent(parameters: dict[str, Any]) -> None:
    taken = exact(parameters)
    assert taken == parameters
    assert json.loads(json.dumps(taken, allow_nan=False)) == parameters


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (float("nan"), "nan is no number in JSON"),
        (float("inf"), "inf is no number in JSON"),
        (np.int64(3), "is a numpy.int64"),
        (np.float64(0.5), "is a numpy.float64"),
        (np.dtype("float32"), "is a numpy."),
        ({"cpu", "gpu"}, "is a set"),
        (("S", "M"), "is a tuple"),
        (2**70, "more than 64 bits"),
        ("a\0b", "has a character that is none in JSON"),
    ],
)
def test_what_would_change_on_its_way_is_refused_with_its_path(value: object, what: str) -> None:
    with pytest.raises(UsageError) as refused:
        exact({"matrix": {"sampling": [1, {"budget_s": value}]}})
    assert str(refused.value).startswith("matrix.sampling[1].budget_s: ")
    assert what in str(refused.value)
    assert "\n" not in str(refused.value)


def test_parameters_that_a_server_would_refuse_for_their_size_are_refused_here() -> None:
    with pytest.raises(UsageError, match=r"^matrix: \d+ kB, and all parameters may have 256"):
        exact({"seed": 1, "matrix": {"kernels": ["dense"] * (LIMIT_NBYTES // 8)}})
