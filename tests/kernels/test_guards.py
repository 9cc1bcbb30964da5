"""A guard for each way in which a timing can lie: kernels that cheat are flagged, honest ones are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import guards, memo, program_guard
from kernels.discovery import suite
from kernels.frameworks import modes
from kernels.frameworks.framework import Compiled, Events
from kernels.guards import Flag
from kernels.measurement import Measurement, Status
from kernels.phase import Phase
from kernels.spec import Work

BUSY = {Flag.NOISY.value, Flag.CONTENDED.value, Flag.THROTTLED.value}
"""Flags that a busy machine may raise on any kernel."""

ROOFLINE = {
    "backend": "cpu",
    "cache_bytes_per_s": 1e13,
    "operations_per_s_float32": 1e13,
    "operations_per_s_float64": 1e13,
}
"""Of a machine that is faster than any processor that a test may meet."""


def flags(measurement: Measurement) -> set[str]:
    found = set(measurement.flags)
    for timing in measurement.timings.values():
        found |= set(timing.flags)
    return found


def honest_cases() -> list[tuple[str, str, str]]:
    """The seed kernels in the core frameworks; all others are in the contract, which has no roofline."""
    return [
        (kernel, name, dtype)
        for kernel in ("dense", "double", "sincos", "total")
        for name, mode in modes().items()
        for dtype in suite()[kernel].dtypes
        if mode.framework in ("jax", "numba", "numpy", "python")
        if suite()[kernel].builder(*name.split("/")) or mode.adapter.ARRAY
        if not mode.adapter.DTYPES or dtype in mode.adapter.DTYPES
    ]


@pytest.mark.parametrize(("kernel", "mode", "dtype"), honest_cases())
def test_honest_kernels_carry_no_flag_beside_a_roofline(measure, kernel, mode, dtype):
    measurement = measure(kernel, mode, dtype=dtype, roofline=ROOFLINE)
    assert (measurement.status, measurement.reason) == (Status.OK, None)
    answered_from_memory = {Flag.MEMOISED.value} if mode == "python/lru_cache" else set()
    assert flags(measurement) - BUSY == answered_from_memory, measurement


@pytest.mark.parametrize(
    ("file", "kernel", "mode"),
    [
        ("remembers", "out_buffer", "numpy/eager"),
        ("remembers", "insertion_sort", "numba/njit"),
        ("remembers", "largest", "python/plain"),
        ("remembers", "count_positive", "python/plain"),
        ("drops", "transcendental", "jax/jit"),
        ("drops", "transpose", "jax/jit"),
        ("drops", "quarter", "jax/jit"),
        ("compiles", "honest_new_jit", "jax/jit"),
        ("mutates", "declared", "numpy/eager"),
        ("mutates", "declared", "numba/njit"),
        ("mutates", "declared", "jax/jit"),
        ("mutates", "undecorated", "jax/jit"),
        ("mutates", "scratch", "numpy/eager"),
        ("falls_back", "wide_total", "numba/njit"),
    ],
)
def test_honest_kernels_near_a_limit_carry_no_flag(measure, file, kernel, mode):
    measurement = measure(kernel, mode, file, roofline=ROOFLINE, dtype="float32" if kernel == "wide_total" else None)
    assert (measurement.status, measurement.reason) == (Status.OK, None)
    assert flags(measurement) <= BUSY, measurement


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("closed_over", "jax/jit"),
        ("closed_over", "jax/eager"),
        ("closed_over", "numpy/eager"),
        ("closed_over_loop", "numba/njit"),
        ("closed_over_loop", "python/plain"),
        ("no_inputs", "jax/jit"),
        ("no_inputs", "numpy/eager"),
        ("no_inputs", "numba/njit"),
        ("zeros", "numpy/eager"),
        ("zeros", "jax/jit"),
        ("ignores", "jax/jit"),
        ("ignores", "numba/njit"),
        ("ignores", "python/plain"),
    ],
)
def test_an_answer_that_is_known_before_the_clock_is_constant_inputs(measure, kernel, mode):
    assert Flag.CONSTANT_INPUTS in flags(measure(kernel, mode, "constants"))


@pytest.mark.parametrize("mode", ["jax/jit", "numba/njit"])
def test_a_program_that_reads_no_input_is_seen_in_the_program_itself(run, mode):
    kernel = "closed_over" if mode == "jax/jit" else "closed_over_loop"
    reasons = [finding.reason for finding in run(kernel, mode, "constants").findings]
    assert "the compiled program reads no input: its work was folded away" in reasons


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("unused_input", "jax/jit"),
        ("unused_input", "numba/njit"),
        ("unused_elements", "jax/jit"),
        ("unused_result", "jax/jit"),
        ("folded_constant", "jax/jit"),
        ("closed_form", "numba/njit"),
        ("times_zero", "numba/njit"),
        ("formula", "numba/njit"),
        ("formula", "python/plain"),
        ("formula", "numpy/eager"),
    ],
)
def test_work_that_is_declared_and_not_done_is_dead_work(measure, kernel, mode):
    assert Flag.DEAD_WORK in flags(measure(kernel, mode, "drops", roofline=ROOFLINE))


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("new_jit", "jax/eager"),
        ("new_jit", "jax/jit"),
        ("static_counter", "jax/eager"),
        ("growing", "jax/eager"),
        ("new_dispatcher", "numba/njit"),
    ],
)
def test_compiling_inside_the_timed_loop_is_recompiled(measure, kernel, mode):
    measurement = measure(kernel, mode, "compiles")
    for phase in {Phase.STEADY, Phase.PIPELINED, Phase.ENQUEUE} & measurement.timings.keys():
        timing = measurement.timings[phase]
        calls = sum(len(samples) * inner for samples, inner in zip(timing.samples, timing.inner_calls, strict=True))
        assert Flag.RECOMPILED in timing.flags
        assert timing.events["compiles"] >= calls


def test_a_program_compiled_by_the_second_call_falsifies_compile_and_not_steady(measure):
    measurement = measure("weak_state", "jax/jit", "compiles")
    assert Flag.RECOMPILED in measurement.timings[Phase.COMPILE].flags
    assert Flag.RECOMPILED not in measurement.timings[Phase.STEADY].flags


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("callback", "jax/jit"),
        ("host_arrays", "jax/eager"),
        ("interpreter", "numba/njit"),
        ("by_numba", "numpy/eager"),
        ("by_jax", "numpy/eager"),
        ("promised", "numpy/eager"),
        ("narrow", "jax/jit"),
        ("narrow", "numba/njit"),
    ],
)
def test_work_done_elsewhere_than_the_case_says_is_fallback(measure, kernel, mode):
    measurement = measure(kernel, mode, "falls_back")
    assert measurement.status is Status.OK
    assert Flag.FALLBACK in flags(measurement)


@pytest.mark.parametrize(
    ("kernel", "mode", "other"),
    [
        ("copied", "torch/eager", "jax"),
        ("copied", "tensorflow/eager", "jax"),
        ("by_torch", "tensorflow/eager", "torch"),
    ],
)
def test_what_another_framework_computed_and_was_copied_back_is_fallback(run, kernel, mode, other):
    for module in (mode.partition("/")[0], other):
        pytest.importorskip(module)
    outcome = run(kernel, mode, "falls_back")
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    assert f"the kernel of {mode.partition('/')[0]} computes with {other}" in [f.reason for f in outcome.findings]


def test_a_jax_that_was_imported_and_opened_nothing_is_no_fallback_in_what_looks_for_it():
    assert not guards.foreign("torch", {"jax", "jax.numpy"}, set())
    assert guards.foreign("torch", {"jax"}, {"jax"})
    assert guards.foreign("torch", {"tensorflow"}, set())
    assert guards.foreign("numpy", {"jax"}, set())
    assert not guards.foreign("jax", {"jax"}, {"jax"})


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("narrow", "jax/jit"),
        ("narrow", "torch/script"),
        ("narrow", "tensorflow/function"),
        ("narrow", "tensorflow/xla"),
        ("narrow_matmul", "torch/script"),
        ("narrow_matmul", "torch/compile"),
    ],
)
def test_half_precision_in_a_float32_case_is_fallback(measure, kernel, mode):
    pytest.importorskip(mode.partition("/")[0])
    assert Flag.FALLBACK in flags(measure(kernel, mode, "falls_back", dtype="float32"))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("type: DT_BFLOAT16", "float32"),
        ("type: DT_HALF", "float64"),
        ("at::vec::Vectorized<at::BFloat16>::loadu(in_ptr0)", "float32"),
        ("c10::Half tmp0", "float32"),
        ("empty_strided_cpu((8,), (1,), torch.bfloat16)", "float32"),
        ("empty_strided_cpu((8,), (1,), torch.float32)", "float64"),
        ("tmp2 = tmp1.to(tl.bfloat16)", "float32"),
        ("_0 = torch.matmul(torch.to(x, 15), w)", "float32"),
        ("_0 = torch.to(torch.add(x, torch.mul(w, 2)), 5, False)", "float32"),
        ("_0 = torch.zeros([8], dtype=6)", "float64"),
    ],
)
def test_the_words_of_a_narrower_dtype_are_known_in_every_frameworks_programs(text, dtype):
    assert {finding.flag for finding in program_guard.judge(Compiled(text), 1, Work(1, 1), dtype)} == {Flag.FALLBACK}


@pytest.mark.parametrize(
    "text",
    [
        "type: DT_FLOAT",
        "type: DT_INT32",
        "empty_strided_cpu((8,), (1,), torch.float32)",
        "# Topologically Sorted Source Nodes: [half, half_1]",
        "_0 = torch.to(x, 6)",
        "_0 = torch.add(torch.to(x, 6), torch.slice(y, 0, 5))",
        "_0 = torch.zeros([15, 5], dtype=11)",
        "half = static_cast<int64_t>(15L)",
    ],
)
def test_numbers_and_names_of_an_honest_program_are_no_dtypes(text):
    assert program_guard.judge(Compiled(text), 1, Work(1, 1), "float32") == []


def test_a_kernel_that_switches_float64_off_is_wrong_and_names_the_dtype(measure):
    measurement = measure("without_x64", "jax/jit", "falls_back")
    assert measurement.status is Status.WRONG
    assert "is float32, the case says float64" in measurement.reason


def test_a_kernel_that_switches_the_compiler_off_fails(measure):
    assert measure("without_jit", "numba/njit", "falls_back").status is Status.FAILED


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("by_identity", "numpy/eager"),
        ("by_identity", "jax/eager"),
        ("by_content", "numpy/eager"),
        ("last_answer", "numpy/eager"),
        ("last_answer", "jax/eager"),
        ("last_total", "python/plain"),
        ("result_cache", "python/plain"),
        ("learned", "numpy/eager"),
        ("computed_once", "numpy/eager"),
        ("computed_once", "jax/eager"),
        ("stops_working", "python/plain"),
    ],
)
def test_answers_from_memory_are_memoised(measure, kernel, mode):
    measurement = measure(kernel, mode, "remembers")
    assert Flag.MEMOISED in flags(measurement)
    assert not measurement.trusted


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [
        ("in_place", "numpy/eager"),
        ("in_place", "numba/njit"),
        ("in_place", "jax/jit"),
        ("sorts", "numpy/eager"),
        ("sorts", "numba/njit"),
        ("accumulates", "numpy/eager"),
        ("accumulates", "jax/eager"),
        ("growing_list", "python/plain"),
    ],
)
def test_a_second_call_that_differs_from_the_first_is_mutated(measure, kernel, mode):
    assert Flag.MUTATED in flags(measure(kernel, mode, "mutates"))


@pytest.mark.parametrize("mode", ["numpy/eager", "numba/njit"])
def test_cold_inputs_are_guarded_against_mutation_too(measure, mode):
    assert Flag.MUTATED in flags(measure("in_place", mode, "mutates", cold=True))


def test_an_input_donated_without_a_word_fails_and_says_which(measure):
    measurement = measure("in_place", "jax/jit", "mutates")
    assert measurement.status is Status.FAILED
    assert measurement.flags[Flag.MUTATED] == "input 0 was consumed, and the kernel does not declare it"


@pytest.mark.parametrize(("kernel", "mode"), [("unsteady", "numpy/eager"), ("unsteady_total", "python/plain")])
def test_calls_of_unlike_duration_are_noisy(measure, kernel, mode):
    assert Flag.NOISY in flags(measure(kernel, mode, "waits", budget_s=0.2))


@pytest.mark.parametrize(
    ("kernel", "mode"), [("sleeps", "python/plain"), ("sleeps_eager", "jax/eager"), ("elsewhere", "numpy/eager")]
)
def test_waiting_instead_of_computing_is_contended(measure, kernel, mode):
    assert Flag.CONTENDED in flags(measure(kernel, mode, "waits"))


@pytest.mark.parametrize("mode", ["numpy/eager", "jax/jit"])
@pytest.mark.parametrize(
    "kernel",
    [
        "no_output",
        "empty_output",
        "empty_array",
        "missing_output",
        "extra_output",
        "zeros_pass",
        "nan_reference",
        "scalar_for_array",
    ],
)
def test_a_check_that_compares_nothing_is_wrong(measure, kernel, mode):
    measurement = measure(kernel, mode, "unchecked")
    assert measurement.status is Status.WRONG
    assert measurement.reason


positive = st.floats(1e2, 1e9)


@given(st.lists(positive, min_size=4, max_size=40), st.floats(1e-3, 1e3))
def test_noise_is_judged_by_its_share_and_not_by_the_unit(samples, factor):
    scaled = [sample * factor for sample in samples]
    share = _share(samples)
    if abs(share - guards.NOISY_SPREAD) > 1e-6:
        assert bool(guards.spread(samples, Phase.STEADY)) == bool(guards.spread(scaled, Phase.STEADY))


def _share(samples: list[float]) -> float:
    import statistics

    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / middle


@given(positive)
def test_a_spread_below_the_limit_is_no_noise_and_above_it_is(middle):
    def spread_of(share: float) -> list[float]:
        half = share / 2
        return [middle * (1 - half)] * 5 + [middle] * 5 + [middle * (1 + half)] * 5

    assert not guards.spread(spread_of(guards.NOISY_SPREAD * 0.95), Phase.STEADY)
    assert guards.spread(spread_of(guards.NOISY_SPREAD * 1.05), Phase.STEADY)


@given(positive, st.floats(0.6, 100))
def test_a_timing_within_reach_of_the_roofline_is_believed(floor, factor):
    assert not guards.roofline(floor * factor, floor)
    assert guards.roofline(floor * 0.4, floor)


def test_a_processor_that_was_kept_from_running_is_contended():
    assert guards.contended(0.99, 0.2)
    assert guards.contended(0.5, None)
    assert not guards.contended(0.97, 0.01)
    assert not guards.contended(1.9, None)


trials = st.builds(memo.Trial, new_ns=positive, repeated_ns=positive, same_object=st.just(False))


@given(st.lists(trials, max_size=5), st.floats(0.5, 2.9))
def test_one_trial_that_did_not_collapse_acquits(others, ratio):
    honest = memo.Trial(1000 * ratio, 1000, same_object=False)
    assert memo.judge([*others, honest]) == []


def test_a_busy_moment_in_one_trial_is_no_memory():
    assert memo.judge([memo.Trial(9000, 1000, False), memo.Trial(1050, 1000, False)]) == []
    assert memo.judge([memo.Trial(9000, 1000, False), memo.Trial(8000, 1000, False)])


def test_trials_that_disagree_about_the_time_of_a_new_input_are_a_busy_machine_and_no_memory():
    busy = [memo.Trial(9000, 2000, False), memo.Trial(3100, 1000, False), memo.Trial(8000, 2500, False)]
    assert all(trial.collapsed for trial in busy)
    assert memo.judge(busy) == []


def test_differences_of_a_few_nanoseconds_are_the_interpreters():
    assert memo.judge([memo.Trial(70, 20, same_object=False)]) == []


@pytest.mark.parametrize(
    ("compiled", "flag"),
    [
        (Compiled("f32[4]", parameters=0, operations=100), Flag.CONSTANT_INPUTS),
        (Compiled("f32[4]", parameters=1, operations=100), Flag.DEAD_WORK),
        (Compiled("f32[4]", parameters=2, operations=24), Flag.DEAD_WORK),
        (Compiled("xla_ffi_python_gpu_callback", parameters=2, operations=100), Flag.FALLBACK),
        (Compiled("f32[4] convert(bf16[4])", parameters=2, operations=100), Flag.FALLBACK),
    ],
)
def test_a_program_is_judged_by_its_text_and_its_estimates(compiled, flag):
    found = program_guard.judge(compiled, 2, Work(100, 100), "float32")
    assert {finding.flag for finding in found} == {flag}


@pytest.mark.parametrize(
    "compiled",
    [
        Compiled(None),
        Compiled("f32[4]", parameters=2, operations=26),
        Compiled("f32[4] while(x)", parameters=2, operations=1),
        Compiled("f32[4] custom-call(x)", parameters=2, operations=0),
        Compiled("f64[4] f32[4]", parameters=2, operations=None),
    ],
)
def test_a_program_that_does_its_work_or_does_not_tell_is_believed(compiled):
    assert program_guard.judge(compiled, 2, Work(100, 100), "float32") == []


@pytest.mark.parametrize("phase", [Phase.COMPILE, Phase.FIRST_CALL])
def test_a_compilation_that_a_cache_answered_is_memoised(phase):
    assert guards.stored(Events(compiles=1, cache_hits=1), phase)
    assert not guards.stored(Events(compiles=1, cache_misses=1), phase)
    assert not guards.stored(Events(compiles=1, cache_hits=1), Phase.RELOAD)
