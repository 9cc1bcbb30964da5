"""Filters choose cells of a matrix; what is not installed gets rows without a process."""

from __future__ import annotations

import pytest

from kernels.case import Exclusion, Matrix
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks
from kernels.frameworks.numba import Numba
from kernels.measurement import Status
from kernels.selection import Filters, everything, partition, select, unavailable_reason


def ids(plan):
    return {case.id for case in plan.cases}


def test_everything_is_every_kernel_at_its_own_sizes_and_dtypes_in_every_mode():
    plan = select(everything(), Filters())

    cells = [*plan.cases, *(skip.case for skip in plan.skips)]
    modes = sum(len(adapter.MODES) for adapter in frameworks().values())
    own = sum(len(kernel.sizes) * len(kernel.dtypes) for kernel in suite().values())
    assert len(cells) == len(set(cells)) == modes * own
    assert all(skip.reason for skip in plan.skips)


def test_filters_of_one_axis_add_up_and_of_several_axes_narrow():
    plan = select(
        everything(), Filters(kernel=("total", "sincos"), framework=("jax/jit",), size=("S",), dtype=("float64",))
    )

    assert ids(plan) == {"total-jax-jit-S-float64-cpu", "sincos-jax-jit-S-float64-cpu"}


def test_a_framework_without_a_mode_means_all_of_its_modes():
    plan = select(everything(), Filters(kernel=("double",), framework=("jax",), dtype=("float32",)))

    assert ids(plan) == {"double-jax-eager-S-float32-cpu", "double-jax-jit-S-float32-cpu"}


def test_a_size_that_only_some_kernels_have_makes_no_rows_for_the_others():
    plan = select(everything(), Filters(size=("M",)))

    assert {case.kernel for case in plan.cases} == {name for name, kernel in suite().items() if "M" in kernel.sizes}
    assert all("M" in suite()[skip.case.kernel].sizes for skip in plan.skips)


def test_a_size_that_the_matrix_itself_names_keeps_its_skips():
    matrix = Matrix("own", ("dense", "double"), ("numpy/eager",), sizes=("M",))

    plan = select(matrix, Filters())

    assert {skip.reason for skip in plan.skips} == {"double has no size M"}


def test_backends_replace_those_of_the_matrix_and_what_cannot_run_there_is_skipped_with_a_reason():
    plan = select(everything(), Filters(backend=("gpu",)))

    assert {case.backend.value for case in plan.cases} == {"gpu"}
    assert "numpy runs on cpu only" in {skip.reason for skip in plan.skips}


def test_derivatives_replace_those_of_the_matrix_and_what_has_none_is_skipped_with_a_reason():
    plan = select(everything(), Filters(kernel=("matmul",), size=("S",), dtype=("float32",), derivative=(1, 2)))

    assert {case.derivative for case in plan.cases} == {1, 2}
    assert {"numpy has no derivative of order 1", "numba has no derivative of order 2"} <= {
        skip.reason for skip in plan.skips
    }
    assert {case.derivative for case in select(everything(), Filters()).cases} == {0}


def test_exclusions_of_the_matrix_hold_under_filters():
    matrix = Matrix(
        "own",
        ("sincos",),
        ("numpy/eager", "jax/jit"),
        exclude=(Exclusion("too slow here", {"framework": ("jax/jit",), "size": ("L",)}),),
    )

    plan = select(matrix, Filters(dtype=("float32",)))

    assert [(skip.case.id, skip.reason) for skip in plan.skips] == [("sincos-jax-jit-L-float32-cpu", "too slow here")]


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"kernel": ("dence",)}, ["unknown kernel 'dence'", "--kernel", "did you mean dense?"]),
        ({"framework": ("jaxx",)}, ["unknown framework 'jaxx'", "jax/jit", "numpy/eager"]),
        ({"framework": ("jax/aot",)}, ["unknown framework 'jax/aot'"]),
        ({"size": ("XXL",)}, ["unknown size 'XXL'", "choose from"]),
        ({"kernel": ("double",), "size": ("L",)}, ["unknown size 'L'", "choose from S"]),
        ({"dtype": ("float31",)}, ["unknown dtype 'float31'", "float32"]),
        ({"backend": ("GPU",)}, ["unknown backend 'GPU'", "cpu, gpu, tpu"]),
        ({"derivative": (3,)}, ["unknown derivative '3'", "--derivative", "choose from 0, 1, 2"]),
        ({"kernel": ("",)}, ["unknown kernel ''"]),
    ],
)
def test_a_value_that_is_not_there_is_refused_in_one_line_with_the_choices(filters, words):
    with pytest.raises(UsageError) as refused:
        select(everything(), Filters(**filters))

    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_filters_that_leave_no_case_are_refused_with_the_reasons():
    with pytest.raises(UsageError, match=r"no case is left .*--framework python --dtype float32.*float64 only"):
        select(everything(), Filters(framework=("python",), dtype=("float32",)))


def test_what_is_installed_is_available_and_what_is_not_names_the_line_that_installs_it(monkeypatch):
    (case,) = select(everything(), Filters(("total",), ("numba",), ("S",), ("float32",))).cases
    monkeypatch.setattr(Numba, "MODULE", "a_module_that_nobody_has")

    assert unavailable_reason(case) == "numba is not installed; pip install numba"
    monkeypatch.setenv("JITMATRIX_IMAGE", "jitmatrix-cpu:0.1.0")
    assert unavailable_reason(case) == "numba is not installed; docs/containers.md tells which images have it"
    monkeypatch.setattr(Numba, "MODULE", "numpy")
    assert unavailable_reason(case) is None


def test_a_plan_is_split_into_cases_and_rows_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(Numba, "MODULE", "a_module_that_nobody_has")
    plan = select(everything(), Filters(kernel=("total",), framework=("numba", "python", "numpy")))

    cases, rows = partition(plan)

    statuses = {row.case.framework: row.status for row in rows}
    assert len(cases) + len(rows) == len(plan.cases) + len(plan.skips)
    assert not {case.framework for case in cases} & {"numba"}
    assert statuses == {"numba": Status.UNAVAILABLE, "python": Status.SKIPPED}
    assert all(row.reason and row.planned for row in rows)


def test_filters_say_whether_a_framework_was_asked_for_by_name():
    assert Filters(framework=("jax/jit",)).names("jax")
    assert not Filters(framework=("jax/jit",)).names("numba")
    assert not Filters(kernel=("jax",)).names("jax")
