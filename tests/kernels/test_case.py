"""A matrix is a product of axes; every cell of it is a case or a skip with its reason."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import matrix_file
from kernels.case import Backend, Case, Exclusion, Matrix, backend
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.frameworks import modes
from kernels.spec import Tolerance


def subsets(values, least=1):
    return st.lists(st.sampled_from(sorted(values)), min_size=least, unique=True).map(tuple)


SIZES = {label for kernel in suite().values() for label in kernel.sizes}
DTYPES = {dtype for kernel in suite().values() for dtype in kernel.dtypes}

exclusions = st.builds(
    Exclusion,
    reason=st.text(min_size=1),
    match=st.fixed_dictionaries(
        {},
        optional={
            "kernel": subsets(suite()),
            "size": subsets(SIZES),
            "framework": subsets(modes()),
            "derivative": subsets("012"),
        },
    ).filter(bool),
)


@st.composite
def matrices(draw, open_sizes=False):
    kernels = draw(subsets(suite()))
    sizes = {label for name in kernels for label in suite()[name].sizes}
    return Matrix(
        name="drawn",
        kernels=kernels,
        frameworks=draw(subsets(modes())),
        sizes=() if open_sizes else draw(subsets(sizes, least=0)),
        dtypes=draw(subsets(DTYPES, least=0)),
        derivatives=tuple(draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, unique=True))),
        backends=tuple(draw(st.lists(st.sampled_from(list(Backend)), min_size=1, unique=True))),
        exclude=tuple(draw(st.lists(exclusions, max_size=2))),
    )


def product_of(matrix):
    for name in matrix.kernels:
        kernel = suite()[name]
        yield from itertools.product(
            [name],
            matrix.frameworks,
            matrix.sizes or kernel.sizes,
            matrix.dtypes or kernel.dtypes,
            matrix.derivatives,
            matrix.backends,
        )


def cell_of(case):
    return case.kernel, f"{case.framework}/{case.mode}", case.size, case.dtype, case.derivative, case.backend


@given(matrices())
def test_cases_and_skips_are_the_product_and_nothing_is_in_both(matrix):
    plan = matrix.expand(suite(), modes())
    cases, skips = [cell_of(case) for case in plan.cases], [cell_of(skip.case) for skip in plan.skips]
    assert sorted(cases + skips) == sorted(product_of(matrix))
    assert not set(cases) & set(skips)


@given(matrices())
def test_every_cell_has_an_id_of_its_own_and_every_skip_a_reason(matrix):
    plan = matrix.expand(suite(), modes())
    ids = [case.id for case in plan.cases] + [skip.case.id for skip in plan.skips]
    assert len(set(ids)) == len(ids)
    assert all(skip.reason for skip in plan.skips)


@given(matrices())
def test_an_exclusion_takes_out_what_it_covers_and_gives_its_own_words(matrix):
    bare = replace(matrix, exclude=()).expand(suite(), modes())
    plan = matrix.expand(suite(), modes())
    taken = set(bare.cases) - set(plan.cases)
    assert taken == {case for case in bare.cases if any(exclusion.covers(case) for exclusion in matrix.exclude)}
    reasons = {exclusion.reason for exclusion in matrix.exclude}
    assert all(skip.reason in reasons for skip in plan.skips if skip.case in taken)


@given(st.data())
def test_narrowing_keeps_exactly_the_cells_that_match(data):
    matrix = data.draw(matrices(open_sizes=True))
    kernel, framework = data.draw(st.sampled_from(matrix.kernels)), data.draw(st.sampled_from(matrix.frameworks))
    everything = matrix.expand(suite(), modes())
    plan = matrix.narrowed(kernel=(kernel,), framework=(framework,)).expand(suite(), modes())
    wanted = {
        case for case in everything.cases if case.kernel == kernel and f"{case.framework}/{case.mode}" == framework
    }
    assert set(plan.cases) == wanted


@given(matrices())
def test_narrowing_by_nothing_changes_nothing(matrix):
    assert matrix.narrowed(kernel=(), framework=(), size=(), dtype=(), derivative=(), backend=()) == matrix


def test_a_framework_without_its_mode_stands_for_all_of_its_modes():
    matrix = Matrix("m", kernels=("dense",), frameworks=("jax/eager", "jax/jit", "numpy/eager"))
    assert matrix.narrowed(framework=("jax",)).frameworks == ("jax/eager", "jax/jit")
    excluded = replace(matrix, exclude=(Exclusion("not today", {"framework": ("jax",)}),))
    assert {case.framework for case in excluded.expand(suite(), modes()).cases} == {"numpy"}


def test_an_open_axis_takes_the_filter_as_it_is():
    matrix = Matrix("m", kernels=("total",), frameworks=("numpy/eager",))
    assert matrix.narrowed(size=("L",)).sizes == ("L",)


def test_derivatives_are_narrowed_and_excluded_as_the_other_axes_are():
    matrix = Matrix("m", kernels=("matmul",), frameworks=("jax/jit",), sizes=("S",), derivatives=(0, 1, 2))
    assert matrix.narrowed(derivative=(1,)).derivatives == (1,)
    excluded = replace(matrix, exclude=(Exclusion("not today", {"derivative": ("1", "2")}),))
    plan = excluded.expand(suite(), modes())
    assert {case.derivative for case in plan.cases} == {0}
    assert {(skip.case.derivative, skip.reason) for skip in plan.skips} == {(1, "not today"), (2, "not today")}


@pytest.mark.parametrize(
    ("kernel", "framework", "order", "reason"),
    [
        ({}, "numpy/eager", 1, "numpy has no derivative of order 1"),
        ({"differentiable": ()}, "jax/jit", 1, "sincos has no derivative"),
        ({"linear": True}, "jax/jit", 2, "sincos has no second derivative: it is linear"),
        ({"linear": True}, "jax/jit", 1, None),
        ({"dtypes": ("int32",), "tolerance": {"int32": Tolerance(0, 0)}}, "jax/jit", 1, "has no derivative in int32"),
    ],
)
def test_a_derivative_that_there_is_not_is_a_skip_with_its_reason(kernel, framework, order, reason):
    changed = replace(suite()["sincos"], **{"differentiable": (0,), **kernel})
    matrix = Matrix("m", ("sincos",), (framework,), ("S",), changed.dtypes, (order,))
    plan = matrix.expand({"sincos": changed}, modes())
    if reason is None:
        assert plan.cases and not plan.skips
    else:
        assert not plan.cases
        assert all(reason in skip.reason for skip in plan.skips)


cases = st.builds(
    Case,
    kernel=st.sampled_from(sorted(suite())),
    framework=st.sampled_from(["jax", "numpy"]),
    mode=st.sampled_from(["jit", "eager"]),
    size=st.sampled_from(sorted(SIZES)),
    dtype=st.sampled_from(sorted(DTYPES)),
    derivative=st.sampled_from([0, 1, 2]),
    backend=st.sampled_from(Backend),
    source=st.none() | st.text(min_size=1),
)


@given(cases)
def test_a_case_crosses_the_process_boundary_unchanged(case):
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


def test_the_id_reads_from_the_kernel_to_the_backend():
    case = Case("dense", "jax", "jit", "M", "float32")
    assert case.id == "dense-jax-jit-M-float32-cpu"
    assert replace(case, derivative=1, backend=Backend.GPU).id == "dense-jax-jit-M-float32-d1-gpu"


GOOD = """
title = "for a test"
kernels = ["dense", "total"]
frameworks = ["numpy/eager", "jax/jit"]
sizes = ["S"]
dtypes = ["float64"]
derivatives = [0]
backends = ["cpu"]
[sampling]
rounds = 3
[[exclude]]
reason = "too slow"
kernel = "total"
framework = ["jax/jit"]
"""


def test_a_file_says_what_its_matrix_is(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(GOOD)
    assert matrix_file.read(file) == Matrix(
        name="small",
        kernels=("dense", "total"),
        frameworks=("numpy/eager", "jax/jit"),
        sizes=("S",),
        dtypes=("float64",),
        exclude=(Exclusion("too slow", {"kernel": ("total",), "framework": ("jax/jit",)}),),
        sampling={"rounds": 3},
    )


@given(matrices())
def test_plain_data_gives_the_matrix_back(matrix):
    def plain(exclusion):
        return {"reason": exclusion.reason} | {axis: list(values) for axis, values in exclusion.match.items()}

    value = {axis: list(getattr(matrix, axis)) for axis in ("kernels", "frameworks", "sizes", "dtypes", "derivatives")}
    value |= {"backends": [b.value for b in matrix.backends], "exclude": [plain(e) for e in matrix.exclude]}
    assert matrix_file.parse(json.loads(json.dumps(value)), "drawn", "here") == matrix


def test_all_is_every_kernel_and_every_mode_that_there_is():
    matrix = matrix_file.parse({"kernels": "all", "frameworks": "all"}, "drawn", "here")
    assert matrix.kernels == tuple(suite())
    assert matrix.frameworks == tuple(modes())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kernels = [", "not a TOML file"),
        ("", "the key kernels is missing"),
        ('kernels = ["dense"]', "the key frameworks is missing"),
        ('kernels = "dense"\nframeworks = ["jax/jit"]', "kernels must be a list of strings"),
        ('kernels = [1]\nframeworks = ["jax/jit"]', "kernels must be a list of strings"),
        ('kernel = ["dense"]\nframeworks = ["jax/jit"]', "did you mean kernels"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nbackends = ["gpo"]', "did you mean gpu"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nderivatives = [3]', "derivatives must be"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nderivatives = [true]', "derivatives must be"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nderivatives = 1', "derivatives must be"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nderivatives = [1.0]', "derivatives must be"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nsampling = 3', "sampling must be a table"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nexclude = "x"', "exclude must be a list of tables"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\n[[exclude]]\nkernel = "dense"', "needs a reason"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\n[[exclude]]\nreason = "x"', "name at least one axis"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\n[[exclude]]\nreason = "x"\nsizes = "S"', "did you mean size"),
    ],
)
def test_a_malformed_file_is_one_line_that_names_it(tmp_path, text, words):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        matrix_file.read(file)
    message = str(error.value)
    assert message.count("\n") == 0
    assert words in message
    assert "bad.toml" in message


@pytest.mark.parametrize(("written", "match"), [("1", ("1",)), ("[1, 2]", ("1", "2")), ('"2"', ("2",))])
def test_an_exclusion_names_derivatives_as_numbers(tmp_path, written, match):
    file = tmp_path / "own.toml"
    file.write_text(
        f'kernels = ["dense"]\nframeworks = ["jax/jit"]\n[[exclude]]\nderivative = {written}\nreason = "slow"'
    )
    (exclusion,) = matrix_file.read(file).exclude
    assert exclusion.match == {"derivative": match}


def test_a_file_that_cannot_be_read_is_one_line_too(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(UsageError, match=path.name):
            matrix_file.read(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernels": ("denze",)}, "did you mean dense"),
        ({"frameworks": ("jax/jot",)}, "did you mean jax/jit"),
        ({"frameworks": ("jax",)}, "unknown framework/mode 'jax'"),
        ({"sizes": ("XXL",)}, "unknown size 'XXL'"),
        ({"dtypes": ("float46",)}, "unknown dtype 'float46'"),
        ({"kernels": ()}, "no case is left"),
        ({"derivatives": ()}, "no case is left"),
        ({"exclude": (Exclusion("x", {"kernel": ("denze",)}),)}, "did you mean dense"),
        ({"exclude": (Exclusion("x", {"framework": ("jix",)}),)}, "did you mean jax"),
        ({"exclude": (Exclusion("x", {"size": ("XXL",)}),)}, "unknown size 'XXL'"),
        ({"exclude": (Exclusion("x", {"backend": ("gpo",)}),)}, "did you mean gpu"),
        ({"exclude": (Exclusion("x", {"derivative": ("3",)}),)}, "unknown derivative '3'"),
    ],
)
def test_a_matrix_of_what_does_not_exist_is_refused_with_the_choices(changes, words):
    matrix = replace(Matrix("m", kernels=("dense",), frameworks=("jax/jit",)), **changes)
    with pytest.raises(UsageError) as error:
        matrix.expand(suite(), modes())
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "filters", [{"kernel": ("denze",)}, {"framework": ("torch",)}, {"dtype": ("float16",)}, {"backend": ("gpu",)}]
)
def test_a_filter_that_matches_nothing_is_refused_with_its_option(filters):
    matrix = Matrix("m", kernels=("dense",), frameworks=("jax/jit",))
    with pytest.raises(UsageError, match="--" + next(iter(filters))):
        matrix.narrowed(**filters)


def test_a_value_named_twice_counts_once():
    value = {
        "kernels": ["dense", "dense"],
        "frameworks": ["jax/jit"],
        "derivatives": [0, 0],
        "backends": ["cpu", "cpu"],
    }
    matrix = matrix_file.parse(value, "m", "here")
    assert (matrix.kernels, matrix.derivatives, matrix.backends) == (("dense",), (0,), (Backend.CPU,))


def test_a_backend_is_read_by_name():
    assert backend("tpu") is Backend.TPU
    with pytest.raises(UsageError, match="choose from cpu, gpu, tpu"):
        backend("CPU")
