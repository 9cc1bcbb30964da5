"""Count, shape, dtype and values of every output are compared, and a check that compared nothing is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernels.case import Backend
from kernels.checking import disagreement
from kernels.frameworks.numpy import NumPy
from kernels.frameworks.python import Python
from kernels.spec import Tolerance

NUMPY = NumPy(Backend.CPU, "float64")
TIGHT = Tolerance(1e-9, 1e-12)

finite = st.floats(-1e6, 1e6, allow_subnormal=False)
floats = arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=4), elements=finite)
telling = floats.filter(lambda x: bool((np.abs(x) > 1e-6).any()))


def check(output, *expected, dtype="float64", tolerance=TIGHT, framework=NUMPY):
    return disagreement(framework, output, list(expected), dtype, tolerance)


@given(telling)
def test_what_equals_the_reference_agrees(reference):
    assert check(reference.copy(), reference) is None


@given(telling, st.data())
def test_one_value_beyond_the_tolerance_is_named_with_both_values(reference, data):
    at = tuple(data.draw(st.integers(0, side - 1)) for side in reference.shape)
    output = reference.copy()
    output[at] += 2 * (TIGHT.absolute + TIGHT.relative * abs(reference[at])) + 1e-9
    assert f"off in 1 of {reference.size} values" in check(output, reference)


@given(telling, st.floats(0, 0.9))
def test_values_within_the_tolerance_agree(reference, share):
    output = reference + share * (TIGHT.absolute + TIGHT.relative * np.abs(reference))
    assert check(output, reference) is None


@given(telling)
def test_a_shape_that_would_broadcast_is_a_disagreement(reference):
    assert "shape" in check(reference[None], reference)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_another_dtype_than_the_cases_is_a_disagreement(dtype):
    reference = np.array([1.0, 2.0])
    assert check(reference.astype(dtype), reference) == f"output 0 is {dtype}, the case says float64"


def test_values_are_compared_in_float64_and_not_in_the_dtype_of_the_case():
    reference = np.array([1.0 + 1e-3])
    output = reference.astype(np.float16)
    assert check(output, reference, dtype="float16", tolerance=Tolerance(1e-3, 0.0)) is None
    assert check(output, reference, dtype="float16", tolerance=Tolerance(1e-6, 0.0)) is not None


def test_every_output_of_a_nested_one_is_compared():
    a, b = np.array([1.0]), np.array([2.0, 3.0])
    assert check({"first": a, "second": (b, [a])}, a, b, a) is None
    assert check((a, b + 1), a, b).startswith("output 1 is off in 2 of 2 values")
    assert check((a,), a, b) == "1 outputs, the reference has 2"
    assert check((a, b, b), a, b) == "3 outputs, the reference has 2"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, []),
        ((), []),
        (None, [np.array([1.0])]),
        (np.array([1.0]), []),
        (np.zeros(0), [np.zeros(0)]),
        ((np.ones(1), np.zeros(0)), [np.ones(1), np.zeros(0)]),
        (np.full(3, np.nan), [np.full(3, np.nan)]),
        (np.zeros(3), [np.zeros(3)]),
        (np.zeros(3), [np.full(3, 1e-13)]),
    ],
)
def test_a_check_that_tells_nothing_from_something_is_a_disagreement(output, expected):
    assert check(output, *expected).startswith("nothing to compare")


def test_a_tolerance_that_lets_zeros_pass_compares_nothing():
    assert "tighten the tolerance" in check(np.ones(4), np.ones(4), tolerance=Tolerance(0.0, 1.0))


def test_one_output_that_tells_is_enough():
    zeros = np.zeros(3)
    assert check((zeros, np.ones(1)), zeros, np.ones(1)) is None


def test_nan_and_infinity_agree_with_themselves_and_with_nothing_else():
    reference = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert check(reference.copy(), reference) is None
    for at, value in ((0, 1.0), (1, -np.inf), (1, 1e308), (3, np.nan), (3, np.inf)):
        output = reference.copy()
        output[at] = value
        assert "off in 1 of 4 values" in check(output, reference)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_of_a_floating_case_must_be_equal_whatever_their_width(dtype):
    reference = np.array([1, 2, 3])
    assert check(reference.astype(dtype), reference) is None
    assert check(np.array([1, 2, 4], dtype), reference) == "output 0 differs in 1 of 3 values"
    assert check(np.array([1.0, 2.0, 3.0]), reference) == "output 0 is float64, the reference int64"


def test_integers_of_a_case_in_integers_have_its_dtype():
    reference = np.array([1, 2, 3])
    assert check(reference.astype("int32"), reference, dtype="int32") is None
    assert check(reference, reference, dtype="int32") == "output 0 is int64, the case says int32"
    assert check(reference == 2, reference == 2, dtype="int32") is None


def test_truth_values_must_be_equal():
    reference = np.array([True, False])
    assert check(reference.copy(), reference) is None
    assert check(~reference, reference) == "output 0 differs in 2 of 2 values"
    assert check(np.array([1, 0]), reference) == "output 0 is int64, the reference bool"


def test_numbers_of_python_are_outputs_too():
    python = Python(Backend.CPU, "float64")
    assert check(2.5, np.array(2.5), framework=python) is None
    assert check([1.5, 2.5], np.array([1.5, 2.5]), framework=python) is None
    assert "shape" in check([2.5], np.array(2.5), framework=python)


def test_an_output_that_is_no_array_is_a_disagreement_and_no_exception():
    assert check("text", np.array([1.0])) is not None
    assert check(object(), np.array(1.0)) is not None
    assert check(iter([1.0]), np.array([1.0])) is not None


def test_complex_values_are_compared_within_the_tolerance_too():
    reference = np.array([1 + 1j, 2.0])
    assert check(reference * (1 + 1e-12), reference, dtype="complex128") is None
    assert "off in 1 of 2 values" in check(reference + np.array([0, 1e-3j]), reference, dtype="complex128")
    assert "complex64" in check(reference.astype(np.complex64), reference, dtype="complex128")


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_transform_between_real_and_complex_keeps_the_precision_of_the_case(dtype):
    real, transformed = np.array([1.0, 2.0]), np.array([1 + 1j, 2.0])
    assert check((real, transformed), real, transformed, dtype=dtype) is None
    assert "complex64" in check((real, transformed.astype(np.complex64)), real, transformed, dtype=dtype)
