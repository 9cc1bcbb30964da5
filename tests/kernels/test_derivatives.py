"""Gradients and Hessian-vector products are held against differences of the float64 reference, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernels import derivatives
from kernels.assignment import Assignment
from kernels.case import Backend, Case
from kernels.discovery import find, suite
from kernels.frameworks import frameworks
from kernels.frameworks.numpy import NumPy
from kernels.guards import Flag
from kernels.measurement import Status
from kernels.process import Process
from kernels.spec import Kernel, Tolerance, Work, dtype_named
from tests.kernels.conftest import CHEATS, TINY

NUMPY = NumPy(Backend.CPU, "float64")
TIGHT = Tolerance(1e-12, 0.0)
BUSY = {Flag.NOISY, Flag.CONTENDED, Flag.THROTTLED}

jax_only = pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")


def kernel_of(array, *inputs, tolerance=TIGHT, positions=(0,), **changes):
    """A kernel of fixed inputs."""
    dtypes = ("float32", "float64", "bfloat16")
    return Kernel(
        name="own",
        summary="",
        sizes={"S": {}},
        dtypes=dtypes,
        inputs=lambda rng, dtype: tuple(np.asarray(x, dtype) for x in inputs),
        work=lambda itemsize: Work(1, 1),
        tolerance=dict.fromkeys(dtypes, tolerance),
        array=array,
        differentiable=positions,
        **changes,
    )


def disagreement(kernel, output, order, *along, dtype="float64", framework=NUMPY):
    """Check an output of a kernel whose inputs are fixed, with a given direction."""
    kernel = derivatives.derived(kernel, order)
    drawn = kernel.inputs(np.random.default_rng(0), np.dtype(dtype))
    inputs = (*drawn[: len(drawn) - len(along)], *along)
    return derivatives.answer(kernel, inputs, dtype, kernel.tolerance[dtype], order).disagreement(framework, output)


def quadratic(xp, x, a):
    return 0.5 * (x @ (a @ x))


def cubic(xp, x):
    return x * x * x


numbers = st.floats(0.1, 10).flatmap(lambda size: st.sampled_from([size, -size]))
sizes = st.integers(1, 8)


@st.composite
def forms(draw):
    n = draw(sizes)
    a, x, v = (draw(arrays.arrays(np.float64, shape, elements=numbers)) for shape in ((n, n), n, n))
    return a + a.T, x, v


@given(forms())
def test_the_derivatives_of_a_quadratic_form_agree(form):
    a, x, v = form
    kernel = kernel_of(quadratic, x, a)
    gradient, product = a @ x, a @ v
    if np.abs(gradient).max() > 1e-3:
        assert disagreement(kernel, (0.5 * x @ gradient, (gradient,)), 1) is None
    if np.abs(product).max() > 1e-3:
        assert disagreement(kernel, (product,), 2, v) is None


@given(forms(), st.data(), st.sampled_from([1e-3, 0.5, -2.0, 100.0]))
def test_one_component_that_is_off_is_told_by_differences(form, data, share):
    a, x, v = form
    kernel = kernel_of(quadratic, x, a)
    at = data.draw(st.integers(0, x.size - 1))
    gradient, product = a @ x, a @ v
    for order, output, along in ((1, gradient, ()), (2, product, (v,))):
        wrong = output.copy()
        wrong[at] += share * max(np.abs(output).max(), 1.0)
        given_ = (0.5 * x @ gradient, (wrong,)) if order == 1 else (wrong,)
        assert "differences" in disagreement(kernel, given_, order, *along)


@given(forms())
def test_a_derivative_of_zeros_is_never_right(form):
    a, x, v = form
    kernel = kernel_of(quadratic, x, a)
    assert disagreement(kernel, (0.5 * x @ a @ x, (0 * x,)), 1).startswith("nothing to compare")
    assert disagreement(kernel, (0 * x,), 2, v).startswith("nothing to compare")


def test_outputs_of_any_shape_are_summed():
    x, w = np.array([[0.3, -1.2], [2.0, 0.7]]), np.array([1.5, -0.5])
    kernel = kernel_of(lambda xp, x, w: {"b": x @ w, "a": (xp.sin(x), w)}, x, w, positions=(0, 1))
    value = (x @ w).sum() + np.sin(x).sum() + w.sum()
    gradients = np.cos(x) + w, x.sum(axis=0) + 1
    assert disagreement(kernel, (value, gradients), 1) is None
    assert disagreement(kernel, (value, (gradients[0], gradients[1] + [0, 1e-3])), 1) is not None
    # A framework may answer in any order of memory.
    assert disagreement(kernel, (value, (np.asfortranarray(gradients[0]), gradients[1])), 1) is None


def test_integer_outputs_and_inputs_are_left_out():
    kernel = kernel_of(lambda xp, x, i: (x[i] ** 2, i), np.array([1.0, 2.0, 3.0]), np.array([2, 0]), positions=(0,))
    kernel = replace(kernel, inputs=lambda rng, dtype: (np.array([1.0, 2.0, 3.0], dtype), np.array([2, 0])))
    assert disagreement(kernel, (10.0, (np.array([2.0, 0.0, 6.0]),)), 1) is None
    assert disagreement(kernel, (10.0, (np.array([2.0, 1.0, 6.0]),)), 1) is not None


X = np.array([0.5, -1.0, 2.0])
GRADIENT = 3 * X**2


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ((np.float64((X**3).sum()), (GRADIENT,)), None),
        ((np.float64((X**3).sum()), GRADIENT), None),
        ((GRADIENT,), "1 outputs, the reference has 2"),
        (((X**3).sum(), (GRADIENT, GRADIENT)), "3 outputs, the reference has 2"),
        ((GRADIENT, np.float64((X**3).sum())), "output 0 has shape (3,), the reference ()"),
        (((X**3).sum(), (GRADIENT[None],)), "output 1 has shape (1, 3), the reference (3,)"),
        (((X**3).sum(), (GRADIENT.astype(np.float32),)), "output 1 is float32, the case says float64"),
        ((np.float32((X**3).sum()), (GRADIENT,)), "output 0 is float32, the case says float64"),
        (((X**3).sum() + 1e-3, (GRADIENT,)), "the objective is"),
        (((X**3).sum(), (np.where(X > 0, GRADIENT, np.nan),)), "not finite"),
        (((X**3).sum(), (-GRADIENT,)), "the gradient along random signs"),
        (((X**3).sum(), (6 * X,)), "differences"),
    ],
)
def test_count_shape_dtype_objective_and_values_of_a_gradient_are_compared(output, words):
    found = disagreement(kernel_of(cubic, X), output, 1)
    assert found is None if words is None else words in found


def test_a_product_of_another_order_or_direction_is_told():
    v = np.array([1.0, -0.5, 0.25])
    kernel = kernel_of(cubic, X)
    assert disagreement(kernel, (6 * X * v,), 2, v) is None
    for wrong in (6 * X, GRADIENT * v, 6 * X * v * 1.001, 6 * v):
        assert "the Hessian-vector product" in disagreement(kernel, (wrong,), 2, v)


@pytest.mark.parametrize(("dtype", "off"), [("float32", 1e-2), ("float64", 1e-5)])
def test_the_largest_component_of_a_long_gradient_is_looked_at(dtype, off):
    x = np.random.default_rng(1).uniform(1, 2, 400_000).astype(dtype)
    kernel = kernel_of(cubic, x)
    gradient = (3 * x.astype(np.float64) ** 2).astype(dtype)
    value = (x.astype(np.float64) ** 3).sum().astype(dtype)
    framework = NumPy(Backend.CPU, dtype)
    assert disagreement(kernel, (value, (gradient,)), 1, dtype=dtype, framework=framework) is None
    gradient[int(np.argmax(gradient))] *= 1 + off
    found = disagreement(kernel, (value, (gradient,)), 1, dtype=dtype, framework=framework)
    assert found is not None


def test_what_bfloat16_has_lost_is_no_disagreement_and_a_sign_is():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.random.default_rng(2).uniform(1, 2, 64).astype(bfloat16)
    wide = x.astype(np.float64)
    value, gradient = (wide**3).sum().astype(bfloat16), (3 * wide**2).astype(bfloat16)
    kernel = kernel_of(cubic, x)
    assert disagreement(kernel, (value, (gradient,)), 1, dtype="bfloat16") is None
    assert disagreement(kernel, (value, (-gradient,)), 1, dtype="bfloat16") is not None


def test_a_kink_near_a_step_is_no_disagreement():
    x = np.random.default_rng(3).standard_normal(20_000)
    kernel = kernel_of(lambda xp, x: xp.abs(x), x)
    assert disagreement(kernel, (np.abs(x).sum(), (np.sign(x),)), 1) is None
    assert disagreement(kernel, (np.abs(x).sum(), (np.ones_like(x),)), 1) is not None


def test_a_step_out_of_the_domain_is_no_disagreement():
    x = np.array([1.0, 1e-6])
    kernel = kernel_of(lambda xp, x: xp.sqrt(x), x)
    assert disagreement(kernel, (np.sqrt(x).sum(), (0.5 / np.sqrt(x),)), 1) is None


def test_a_reference_that_no_difference_tells_anything_of_is_a_disagreement():
    kernel = kernel_of(lambda xp, x: xp.where(xp.sin(1e15 * x) > 0, 1.0, -1.0) + 0 * x, np.arange(1.0, 50.0))
    value = kernel.expected(kernel.inputs(None, np.float64))[0].sum()
    assert disagreement(kernel, (value, (np.ones(49),)), 1).startswith("nothing to compare: no finite difference")


def test_a_tolerance_that_lets_half_a_derivative_pass_compares_nothing():
    kernel = kernel_of(cubic, X, tolerance=Tolerance(0.5, 0.0))
    assert "tolerance" in disagreement(kernel, ((X**3).sum(), (GRADIENT,)), 1)


@pytest.mark.parametrize(("order", "evaluations"), [(1, 1 + 3 * 2), (2, 1 + 3 * 4)])
def test_a_slow_reference_is_evaluated_a_few_times_and_what_is_known_is_kept(monkeypatch, order, evaluations):
    calls = []
    kernel = kernel_of(lambda xp, x: calls.append(1) or x * x * x, X)
    kernel = derivatives.derived(kernel, order)
    inputs = (X, np.ones(3))[:order]
    output = ((X**3).sum(), (GRADIENT,)) if order == 1 else (6 * X,)
    monkeypatch.setattr(derivatives, "CHECK_NS", 0)
    answer = derivatives.answer(kernel, inputs, "float64", TIGHT, order)
    assert answer.disagreement(NUMPY, output) is None
    assert len(calls) == evaluations
    assert answer.disagreement(NUMPY, output) is None
    assert len(calls) == evaluations


def jax_derivative(kernel, inputs, order):
    """What JAX says of a kernel, as its leaves: gradients, or for order 2 Hessian-vector products."""
    jax = pytest.importorskip("jax")
    places, count = kernel.differentiable, len(kernel.differentiable)
    value = inputs if order == 1 else inputs[:-count]

    def objective(*moved):
        args = dict(zip(places, moved, strict=True))
        return kernel.array(jax.numpy, *(args.get(at, x) for at, x in enumerate(value))).sum()

    gradient, at = jax.grad(objective, tuple(range(count))), tuple(jax.numpy.asarray(value[place]) for place in places)
    if order == 1:
        return [objective(*at), *gradient(*at)]
    return list(jax.jvp(gradient, at, tuple(map(jax.numpy.asarray, inputs[-count:])))[1])


@jax_only
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["mlp", "attention", "matmul", "layer_norm"])
def test_one_inputs_gradient_that_is_off_as_a_whole_is_told_however_busy_the_machine_is(
    monkeypatch, name, dtype, order
):
    monkeypatch.setattr(derivatives, "CHECK_NS", 0)
    kernel = derivatives.derived(suite()[name], order)
    inputs = kernel.inputs(np.random.default_rng(0), dtype_named(dtype), **kernel.sizes["S"])
    answer = derivatives.answer(kernel, inputs, dtype, kernel.allowed(dtype, "S", "cpu"), order)
    honest = [np.asarray(leaf) for leaf in jax_derivative(kernel, inputs, order)]
    framework = NumPy(Backend.CPU, dtype)
    assert answer.disagreement(framework, honest) is None
    for at in range(2 - order, len(honest)):
        for factor in (-1, 0, 1.5) if honest[at].any() else ():
            cheat = [*honest[:at], (honest[at] * factor).astype(honest[at].dtype), *honest[at + 1 :]]
            assert answer.disagreement(framework, cheat) is not None, (at, factor)


@pytest.mark.parametrize("size", range(1, 20))
def test_a_gradient_that_is_zero_for_one_input_and_should_be_the_same_everywhere_is_told(monkeypatch, size):
    monkeypatch.setattr(derivatives, "CHECK_NS", 0)
    bias = np.linspace(0.5, 1.5, size)
    kernel = kernel_of(lambda xp, x, b: (x * x * x, b), 1000 * X, bias, positions=(0, 1))
    value, gradient = ((1000 * X) ** 3).sum() + bias.sum(), 3 * (1000 * X) ** 2
    assert disagreement(kernel, (value, (gradient, np.ones(size))), 1) is None
    assert "by input 1" in disagreement(kernel, (value, (gradient, np.zeros(size))), 1)


def test_a_derived_case_draws_its_direction_after_the_inputs_and_consumes_none():
    kernel = replace(find("waves", str(CHEATS / "derives.py")), donates=(0,))
    value = kernel.inputs(np.random.default_rng(5), np.dtype("float32"), n=4)
    for order, count in ((0, 2), (1, 2), (2, 4)):
        derived = derivatives.derived(kernel, order)
        drawn = derived.inputs(np.random.default_rng(5), np.dtype("float32"), n=4)
        assert len(drawn) == count
        assert all(np.array_equal(a, b) for a, b in zip(drawn[:2], value, strict=True))
        assert {(x.shape, x.dtype.name) for x in drawn} == {((4,), "float32")}
        assert derived.donates == ((0,) if order == 0 else ())
        assert np.array_equal(derived.expected(drawn)[0], kernel.expected(value)[0])


def test_every_framework_gets_the_same_direction_and_new_inputs_come_with_a_new_one():
    def process(framework):
        case = Case("waves", framework, "eager", "S", "float64", 2, source=str(CHEATS / "derives.py"))
        return Process(Assignment(case, "steady", TINY), find(case.kernel, case.source), NUMPY, lambda _: None)

    one, other = process("numpy"), process("jax")
    assert all(np.array_equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))
    again = one.draw("S", 1)
    assert not any(np.array_equal(a, b) for a, b in zip(one.inputs, again, strict=True))
    assert [x.shape for x in one.draw("M")] == [(3000,)] * 4


@jax_only
@pytest.mark.parametrize(("mode", "dtype"), [("jax/eager", "float64"), ("jax/jit", "float32")])
@pytest.mark.parametrize(
    ("kernel", "order"),
    [("waves", 1), ("waves", 2), ("donates", 1), ("donates", 2), ("square", 1), ("square", 2), ("flat", 1)],
)
def test_honest_derivatives_are_right_and_carry_no_flag(run, kernel, order, mode, dtype):
    outcome = run(kernel, mode, "derives", dtype=dtype, derivative=order)
    assert (outcome.status, outcome.reason) == (Status.OK, None), outcome.output
    assert {finding.flag for finding in outcome.findings} <= BUSY, outcome.findings


@jax_only
@pytest.mark.parametrize("mode", ["jax/eager", "jax/jit"])
@pytest.mark.parametrize(
    ("kernel", "order", "words"),
    [
        ("one_component", 1, "the gradient along random signs is"),
        ("zero", 1, "nothing to compare: the derivative is zero everywhere"),
        ("one_of_two", 1, "the gradient along random signs is"),
        ("flat", 2, "the Hessian-vector product along random signs is"),
    ],
)
def test_a_derivative_by_hand_that_is_wrong_is_told(run, kernel, order, words, mode):
    outcome = run(kernel, mode, "derives", derivative=order)
    assert outcome.status is Status.WRONG, outcome
    assert words in outcome.reason
    assert run(kernel, mode, "derives").status is Status.OK
