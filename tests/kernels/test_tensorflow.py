"""TensorFlow: what each mode can be told of, what it counts, and kernels that cheat it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys

import pytest

from kernels.assignment import Assignment, Role
from kernels.case import Backend
from kernels.discovery import find
from kernels.framework_check import preloaded
from kernels.frameworks import tensorflow_program
from kernels.frameworks.tensorflow import TensorFlow
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.variables import environment

present = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="tensorflow is not installed: make test EXTRAS=torch,tensorflow",
)

MODES = ["tensorflow/eager", "tensorflow/function", "tensorflow/xla"]
BUSY = {"noisy", "contended", "throttled"}


def readings(outcome):
    assert outcome.status is Status.OK, outcome.reason
    return {reading.phase: reading for reading in outcome.readings}


def counts(reading):
    return tuple(reading.events[name] for name in ("traces", "lowerings", "compiles"))


def flags(measurement):
    return measurement.flags.keys() | {flag for timing in measurement.timings.values() for flag in timing.flags}


def raised(outcome):
    return {finding.flag for finding in outcome.findings} - BUSY


# What can be known without TensorFlow.


def test_xla_has_no_compile_phase_since_only_a_call_compiles():
    phases = {mode: set(TensorFlow.phases(mode, Backend.CPU)) for mode in TensorFlow.MODES}
    assert phases["function"] - phases["eager"] == {Phase.TRACE, Phase.RETRACE}
    assert phases["xla"] - phases["function"] == {Phase.RELOAD}
    assert not any(Phase.COMPILE in of_mode for of_mode in phases.values())


def test_only_a_gpu_is_asynchronous():
    on_gpu, on_host = (set(TensorFlow.phases("xla", backend)) for backend in (Backend.GPU, Backend.CPU))
    assert on_gpu - on_host == {Phase.PIPELINED, Phase.ENQUEUE}


HLO = """HloModule a_inference_f_{number}__.2, entry_computation_layout={{(f32[2]{{0}}, f32[2]{{0}})->f32[2]{{0}}}}

%fused (param_0: f32[2]) -> f32[2] {{
  %param_0 = f32[2]{{0}} parameter(0)
  ROOT %sine = f32[2]{{0}} sine(%param_0), metadata={{op_type="Sin" source_file="{file}" source_line={number}}}
}}

ENTRY %main (arg0.1: f32[2], arg1.2: f32[2]) -> f32[2] {{
  %arg1.2 = f32[2]{{0}} parameter(1)
  %arg0.1 = f32[2]{{0}} parameter(0)
  ROOT %fusion = f32[2]{{0}} fusion(%arg0.1), kind=kLoop, calls=%fused
}}
"""


def test_a_parameter_that_nothing_uses_is_not_read():
    assert tensorflow_program.parameters_read(HLO.format(number=1, file="a.py")) == 1


def test_a_parameter_that_is_returned_is_read():
    assert (
        tensorflow_program.parameters_read("ENTRY %m (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n") == 1
    )


def test_a_text_without_an_entry_tells_nothing():
    assert tensorflow_program.parameters_read("nothing") is None


def test_a_programs_text_does_not_tell_where_and_when_it_was_traced():
    here, there = (tensorflow_program.hlo_text(HLO.format(number=n, file=f"{n}.py")) for n in (7, 12))
    assert here == there
    assert "source_file" not in here


# What needs TensorFlow.


@present
@pytest.mark.parametrize("mode", MODES)
def test_every_phase_of_a_mode_is_timed_and_nothing_is_compiled_while_it_is(run, mode):
    outcome = run("total", mode)
    found = readings(outcome)
    elsewhere = {Phase.STARTUP, Phase.FIRST_CALL, Phase.RELOAD}
    assert found.keys() == set(TensorFlow.MODES[mode.partition("/")[2]]) - elsewhere
    assert counts(found[Phase.STEADY]) == (0, 0, 0)
    assert not raised(outcome)


@present
@pytest.mark.parametrize(("mode", "compiles"), [("tensorflow/function", 0), ("tensorflow/xla", 1)])
def test_a_function_is_traced_once_for_each_shape(run, mode, compiles):
    found = readings(run("total", mode))
    assert counts(found[Phase.TRACE]) == (1, 1, compiles)
    assert counts(found[Phase.RETRACE]) == (1, 1, compiles)


@present
@pytest.mark.parametrize(("mode", "expected"), list(zip(MODES, [(0, 0, 0), (1, 1, 0), (1, 1, 1)], strict=True)))
def test_the_first_call_traces_and_compiles_in_a_process_of_its_own(run, mode, expected):
    found = readings(run("total", mode, role=Role.FIRST_CALL))
    assert counts(found[Phase.FIRST_CALL]) == expected


@present
def test_a_second_process_takes_xlas_program_from_the_cache(run, tmp_path):
    first, second = (
        readings(run("dense", "tensorflow/xla", role=Role.CACHE, cache_dir=str(tmp_path)))[Phase.RELOAD]
        for _ in range(2)
    )
    assert (first.events["cache_hits"], first.events["cache_misses"]) == (0, 1)
    assert (second.events["cache_hits"], second.events["cache_misses"]) == (1, 0)


@present
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dtype_that_was_asked_for_is_the_one_that_comes_out(run, mode, dtype):
    outcome = run("dense", mode, dtype=dtype)
    assert outcome.status is Status.OK
    assert outcome.facts["output_dtype"] == dtype


@present
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kernel", ["sincos", "gathers", "loops"])
def test_a_derivative_is_what_finite_differences_say(isolation, case_of, tiny, kernel, mode, order):
    case = case_of(kernel, mode, None if kernel == "sincos" else "tensorflow_forms", dtype="float64")
    case = dataclasses.replace(case, derivative=order)
    if TensorFlow.refuses(find(kernel, case.source), case):
        assert (kernel, mode, order) == ("loops", "tensorflow/xla", 2)
        return
    outcome = isolation.run(Assignment(case, Role.STEADY, tiny, 0))
    assert outcome.status is Status.OK, outcome.reason
    assert not raised(outcome)


@present
def test_a_program_that_holds_an_inputs_values_is_flagged(isolation, case_of, tiny):
    case = dataclasses.replace(case_of("hidden_loop", "tensorflow/xla", "tensorflow_forms"), derivative=2)
    outcome = isolation.run(Assignment(case, Role.STEADY, tiny, 0))
    assert any("compiled the values of 1 inputs into the program" in finding.reason for finding in outcome.findings)


@present
@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_was_decorated_already_is_decorated_as_the_mode_says(run, mode):
    outcome = run("decorated", mode, "tensorflow_forms", role=Role.FIRST_CALL)
    compiles = readings(outcome)[Phase.FIRST_CALL].events["compiles"]
    assert compiles == (mode == "tensorflow/xla")


@present
@pytest.mark.parametrize("mode", MODES[1:])
def test_control_flow_may_be_left_to_autograph(run, mode):
    assert readings(run("control_flow", mode, "tensorflow_forms"))


@present
def test_threads_and_settings_are_told(run):
    facts = run("double", "tensorflow/eager", role=Role.FIRST_CALL).facts
    assert facts["device_platform"] == "cpu"
    assert facts["intra_op_threads"] == facts["inter_op_threads"] > 0
    assert {"onednn", "matmul_precision"} <= facts.keys()


@present
@pytest.mark.parametrize("kernel", ["retraces", "compiles_anew"])
def test_a_function_that_is_traced_anew_by_each_call_is_flagged(run, kernel):
    assert "recompiled" in raised(run(kernel, "tensorflow/eager", "tensorflow_forms"))


@present
@pytest.mark.parametrize("kernel", ["by_numpy", "by_numpy_within", "eagerly"])
def test_work_that_python_does_is_flagged(run, kernel):
    assert "fallback" in raised(run(kernel, "tensorflow/function", "tensorflow_forms"))


@present
@pytest.mark.parametrize("mode", MODES[1:])
def test_a_constant_is_no_program(run, mode):
    assert "constant_inputs" in raised(run("folded", mode, "tensorflow_forms"))


@present
@pytest.mark.parametrize("mode", MODES[1:])
def test_an_input_that_is_not_read_is_flagged(run, mode):
    assert "dead_work" in raised(run("reads_one", mode, "tensorflow_forms"))


@present
def test_an_operation_that_xla_refuses_fails_in_one_line(run):
    outcome = run("refused", "tensorflow/xla", "tensorflow_forms")
    assert outcome.status is Status.FAILED
    assert "AsString" in outcome.reason
    assert "\n" not in outcome.reason


@present
def test_the_fork_server_opens_nothing_and_starts_no_thread():
    check = preloaded("tensorflow")
    assert check.ok, check.found


OPENED = """
import json, sys
import tensorflow as tf
from kernels.frameworks.tensorflow import TensorFlow
before = TensorFlow.opened()
tf.constant(1.0)
print(json.dumps([before, TensorFlow.opened()]))
"""


@present
def test_an_opened_device_is_seen():
    done = subprocess.run(
        [sys.executable, "-c", OPENED], env=environment(1), capture_output=True, text=True, check=True, timeout=200
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [False, True]


@present
def test_forks_of_the_server_do_not_hang(run):
    for _ in range(12):
        assert run("double", "tensorflow/xla", role=Role.FIRST_CALL).status is Status.OK


def test_a_user_cannot_change_what_is_traced_by_a_variable(monkeypatch):
    monkeypatch.setenv("TF_FUNCTION_JIT_COMPILE_DEFAULT", "true")
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    assert not {"TF_FUNCTION_JIT_COMPILE_DEFAULT", "TF_XLA_FLAGS"} & environment(1).keys()
