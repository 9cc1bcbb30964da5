"""A kernel says what it computes, how much work that is, and how far its outputs may be off."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.case import Backend
from kernels.discovery import suite
from kernels.errors import UnavailableError, UsageError
from kernels.spec import BACKENDS, Kernel, Tolerance, Work, dtype_named, is_extension, is_floating, leaves

KERNELS = list(suite().values())

PARTLY_READ = {
    "cholesky": "half of a symmetric matrix says all of it",
    "embedding": "of the table, the rows that are looked up",
}
"""Kernels that need not read all of their inputs, and why."""


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_inputs_are_seeded_never_constant_and_of_the_dtype_that_was_asked_for(kernel):
    for dtype in kernel.dtypes:
        dims = next(iter(kernel.sizes.values()))
        first, again, other = (
            kernel.inputs(np.random.default_rng(seed), dtype_named(dtype), **dims) for seed in (0, 0, 1)
        )
        assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
        assert not all(np.array_equal(x, y) for x, y in zip(first, other, strict=True))
        for x in first:
            assert not is_floating(x.dtype) or x.dtype.name == dtype or not is_floating(dtype_named(dtype))
            assert x.size == 1 or len(np.unique(x)) > 1


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_work_grows_with_the_sizes_and_bytes_with_the_dtype(kernel):
    works = [kernel.work(4, **dims) for dims in kernel.sizes.values()]
    assert all(
        (small.operations < large.operations or large.operations == 1) and small.nbytes < large.nbytes
        for small, large in itertools.pairwise(works)
    )
    assert kernel.work(8, **next(iter(kernel.sizes.values()))).nbytes > works[0].nbytes


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_reference_is_float64_whatever_the_case(kernel):
    dims = next(iter(kernel.sizes.values()))
    inputs = kernel.inputs(np.random.default_rng(0), np.dtype("float32"), **dims)
    assert all(x.dtype == np.float64 for x in kernel.expected(inputs) if is_floating(x.dtype))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_summary_is_one_line_and_the_least_bytes_hold_the_inputs(kernel):
    assert "\n" not in kernel.summary
    dims = next(iter(kernel.sizes.values()))
    inputs = kernel.inputs(np.random.default_rng(0), np.dtype("float64"), **dims)
    if kernel.name not in PARTLY_READ:
        assert kernel.work(8, **dims).nbytes >= sum(x.nbytes for x in inputs)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Dense"}, "lower-case identifier"),
        ({"name": "jacobi-2d"}, "lower-case identifier"),
        ({"array": None}, "nothing to check outputs against"),
        ({"dtypes": ("float32", "bfloat16")}, r"missing \['bfloat16'\]"),
        ({"dtypes": ()}, "are needed"),
        ({"sizes": {}}, "are needed"),
    ],
)
def test_a_kernel_that_lacks_something_is_refused_in_one_line(changes, words):
    with pytest.raises(UsageError, match=words) as error:
        replace(suite()["total"], **changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("operations", "nbytes"), [(0, 1), (1, 0), (-5, 8)])
def test_no_kernel_does_no_work(operations, nbytes):
    with pytest.raises(UsageError, match="at least 1"):
        Work(operations, nbytes)


def test_a_builder_of_a_mode_wins_over_that_of_its_framework():
    def one():
        return abs

    def two():
        return round

    kernel = replace(suite()["total"], implementations={"jax": one, "jax/eager": two})
    assert kernel.builder("jax", "eager") is two
    assert kernel.builder("jax", "jit") is one
    assert kernel.builder("torch", "eager") is None


def test_the_tolerance_of_a_backend_wins_over_that_of_a_size_and_that_over_the_dtypes():
    plain, size, backend = Tolerance(1e-6, 0), Tolerance(1e-4, 0), Tolerance(1e-3, 0)
    kernel = replace(suite()["total"], tolerance={"float32": plain, "float32/L": size, "float64": plain})
    assert kernel.allowed("float32", "S", "cpu") == kernel.allowed("float64", "L", "gpu") == plain
    assert kernel.allowed("float32", "L", "cpu") == kernel.allowed("float32", "L", "gpu") == size
    kernel = replace(kernel, tolerance={**kernel.tolerance, "float32/gpu": backend})
    assert kernel.allowed("float32", "L", "gpu") == kernel.allowed("float32", "S", "gpu") == backend
    assert kernel.allowed("float32", "L", "tpu") == size


@pytest.mark.parametrize("key", ["float32/XXL", "float32/", "float32/L/gpu", "int8/gpu", "gpu/float32"])
def test_a_tolerance_for_what_there_is_not_is_one_clear_line(key):
    kernel = suite()["total"]
    with pytest.raises(UsageError, match=f"total: tolerance of '{key}': before the slash .* L, cpu, gpu, tpu$"):
        replace(kernel, tolerance={**kernel.tolerance, key: Tolerance(0, 0)})


def test_every_backend_may_have_a_tolerance():
    assert tuple(backend.value for backend in Backend) == BACKENDS


def test_integers_reach_the_reference_as_they_are():
    kernel = Kernel(
        name="picks",
        summary="x[i]",
        sizes={"S": {"n": 3}},
        dtypes=("float32",),
        inputs=lambda rng, dtype, n: (np.arange(n, dtype=dtype), np.array([2, 0])),
        work=lambda itemsize, n: Work(1, itemsize * n),
        tolerance={"float32": Tolerance(0, 0)},
        array=lambda xp, x, i: x[i],
    )
    (picked,) = kernel.expected(kernel.inputs(None, np.float32, n=3))
    assert picked.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("dtype", "floating"),
    [("float16", True), ("float64", True), ("int32", False), ("bool", False), ("complex64", False)],
)
def test_real_floating_dtypes_are_told_from_the_others(dtype, floating):
    assert is_floating(np.dtype(dtype)) is floating


def test_the_small_floating_dtypes_of_accelerators_are_floating():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert is_floating(np.dtype(ml_dtypes.bfloat16))
    assert is_floating(np.dtype(ml_dtypes.float8_e4m3fn))


trees = st.recursive(
    st.integers().map(lambda n: np.full(2, n % 100)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def count(tree):
    if isinstance(tree, dict):
        return sum(map(count, tree.values()))
    return sum(map(count, tree)) if isinstance(tree, list | tuple) else 1


@given(trees)
def test_every_leaf_of_a_nested_output_is_found(tree):
    assert len(leaves(tree)) == count(tree)


def test_leaves_come_in_the_order_that_jax_gives_them():
    assert leaves({"b": 1, "a": (2, [3.5, 4])}) == [2, [3.5, 4], 1]
    assert leaves(None) == leaves(()) == leaves([None, {}]) == []


@pytest.mark.parametrize("name", ["float32", "int32", "bool", "complex64"])
def test_numpys_own_dtypes_are_given_by_numpy(name):
    assert not is_extension(name)
    assert dtype_named(name) == np.dtype(name)


def test_bfloat16_comes_from_ml_dtypes_and_is_floating():
    assert is_extension("bfloat16")
    assert dtype_named("bfloat16").name == "bfloat16"
    assert is_floating(dtype_named("bfloat16"))


def test_a_dtype_that_nobody_has_is_named():
    with pytest.raises(UsageError, match="unknown dtype 'float31'"):
        dtype_named("float31")


def test_without_ml_dtypes_the_line_that_installs_it_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnavailableError, match="pip install ml_dtypes"):
        dtype_named("bfloat16")
