"""A tolerance forgives the rounding of its dtype, and neither a narrower one nor a part of the input left out."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import template
from kernels.case import Backend
from kernels.checking import disagreement
from kernels.discovery import suite
from kernels.frameworks.numpy import NumPy
from kernels.spec import dtype_named, is_floating

KERNELS = {**suite(), "template": template.KERNEL}
NARROWER = {"float64": "float32", "float32": "float16"}

INTEGER = {"life", "mandelbrot"}
"""Their outputs are integers, and are compared exactly."""

DRAWS = 2
"""Of the inputs: a case's outputs are checked for as many at least. The roundings of one may cancel in a sum."""

AVERAGED = {("total", "L", "float32"), ("template", "L", "float32"), ("cumsum", "L", "float32")}
"""The roundings of millions of values cancel in their sum to less than the last digits of it, which NumPy's own running
sum loses."""

CASES = [
    (name, size, dtype)
    for name, kernel in KERNELS.items()
    for size in kernel.sizes
    for dtype in kernel.dtypes
    if dtype in NARROWER
    and name not in INTEGER
    and (size == "S" or name in {"total", "cumsum", "dense", "template"})
    and (name, size, dtype) not in AVERAGED
]


def inputs_of(name, size, dtype, draw=0):
    kernel = KERNELS[name]
    return kernel.inputs(np.random.default_rng([draw, len(name)]), dtype_named(dtype), **kernel.sizes[size])


def verdict(name, size, dtype, changed, inputs, backend="cpu"):
    """Check the answer to changed inputs, computed without error, against that to the inputs."""
    kernel = KERNELS[name]
    found = [x.astype(dtype) if is_floating(x.dtype) else x for x in kernel.expected(changed)]
    tolerance = kernel.allowed(dtype, size, backend)
    return disagreement(NumPy(Backend.CPU, dtype), found, kernel.expected(inputs), dtype, tolerance)


@pytest.mark.parametrize(("name", "size", "dtype"), CASES)
def test_an_exact_answer_in_the_dtype_is_right_and_one_to_inputs_of_the_next_narrower_dtype_is_not(name, size, dtype):
    told = []
    for draw in range(DRAWS):
        inputs = inputs_of(name, size, dtype, draw)
        assert verdict(name, size, dtype, inputs, inputs) is None
        rounded = tuple(x.astype(NARROWER[dtype]).astype(dtype) if is_floating(x.dtype) else x for x in inputs)
        told.append(verdict(name, size, dtype, rounded, inputs))
    assert any(told)


def zeroed(array, at):
    array = array.copy()
    array[at] = 0
    return array


LEFT_OUT = [
    *((name, "S", at) for name in ("total", "cumsum", "template") for at in (0, 500, -1)),
    # A thousandth part of the sum at L: in float32 one of millions of values is in its last digits.
    *((name, "L", slice(1000)) for name in ("total", "cumsum", "template")),
    *((name, "S", -1) for name in ("logsumexp", "segment_sum", "layer_norm", "softmax", "matmul")),
    *(("dense", size, at) for size in ("S", "M", "L") for at in (0, -1)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "size", "at"), LEFT_OUT)
def test_an_answer_without_one_element_or_row_of_the_first_input_is_not_right(name, size, at, dtype):
    inputs = inputs_of(name, size, dtype)
    assert verdict(name, size, dtype, (zeroed(inputs[0], at), *inputs[1:]), inputs) is not None


PRODUCTS = ["matmul", "batched_matmul", "dense", "conv2d", "mlp", "mlp_step", "attention", "rnn"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_on_an_accelerator_may_round_as_its_defaults_do_and_no_more(name):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    inputs = inputs_of(name, "S", "float32")
    # TF32 has as many digits as float16.
    for backend, dtype in (("gpu", np.float16), ("tpu", bfloat16)):
        rounded = tuple(x.astype(dtype).astype(np.float32) for x in inputs)
        assert verdict(name, "S", "float32", rounded, inputs, backend) is None
        assert verdict(name, "S", "float32", rounded, inputs) is not None
        assert verdict(name, "S", "float32", (zeroed(inputs[0], -1), *inputs[1:]), inputs, backend) is not None
    assert verdict(name, "S", "float32", rounded, inputs, "gpu") is not None
