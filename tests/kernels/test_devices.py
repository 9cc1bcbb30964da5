"""A device that cannot be used gives one line that says why, and who holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.assignment import Assignment, Role
from kernels.case import Backend, Case
from kernels.devices import unusable
from kernels.frameworks import frameworks
from kernels.guards import Flag
from kernels.isolation import Isolation
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.timing import Sampling

jax_only = pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")
no_gpu = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")

HELD = (
    "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid {pid}. Not attempting"
)


def test_a_live_holder_is_named():
    reason = str(unusable("jax", Backend.TPU, RuntimeError(HELD.format(pid=os.getppid()))))

    assert reason.startswith("device busy (jax, tpu)")
    assert f"process {os.getppid()} holds it" in reason


def test_a_holder_that_is_gone_left_a_stale_lock():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    reason = str(unusable("jax", Backend.TPU, RuntimeError(HELD.format(pid=ended.pid))))

    assert f"process {ended.pid} held it and is gone: remove the lock file" in reason


@pytest.mark.parametrize(
    "text",
    [
        "libtpu.so already in use by another process.\nRun `sudo lsof -w /dev/accel0`",
        "failed call to cuInit: CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable",
        'ABORTED: Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm /tmp/libtpu_lockfile".',
    ],
)
def test_a_busy_device_without_a_named_holder_is_busy_too(text):
    reason = str(unusable("jax", Backend.TPU, RuntimeError(text)))

    assert reason.startswith("device busy")
    assert "\n" not in reason


@pytest.mark.parametrize(
    "text",
    [
        "CUDNN_STATUS_NOT_INITIALIZED: Loaded runtime CuDNN library: 8.9.1\nbut source was compiled with: 9.8.0",
        "",
        "\n",
    ],
)
def test_any_other_fault_is_one_line_and_not_busy(text):
    reason = str(unusable("jax", Backend.GPU, AssertionError(text)))

    assert reason.startswith("jax has no usable gpu device here: ")
    assert len(reason) > len("jax has no usable gpu device here: ")
    assert "\n" not in reason
    assert "busy" not in reason


def test_advice_that_leads_to_another_device_is_left_out():
    error = RuntimeError("Unable to initialize backend 'tpu': x (set JAX_PLATFORMS='' to automatically choose one)")

    assert "JAX_PLATFORMS" not in str(unusable("jax", Backend.TPU, error))


def outcome_of(mode, backend):
    case = Case("sincos", "jax", mode, "S", "float32", backend=backend)
    with Isolation() as isolation:
        return isolation.run(Assignment(case, Role.STEADY, Sampling(rounds=1, budget_s=0.01, timeout_s=60)))


CRASHES = """
import os

def initialize():
    os.abort()
"""


@jax_only
@no_gpu
def test_where_there_is_no_driver_no_library_that_would_end_the_process_is_asked(jax_plugin):
    jax_plugin(CRASHES)

    outcome = outcome_of("jit", Backend.GPU)

    assert outcome.status is Status.UNAVAILABLE
    assert "NVIDIA's driver cannot be loaded: libcuda.so.1: " in outcome.reason


@jax_only
@no_gpu
@pytest.mark.parametrize("mode", ["eager", "jit"])
@pytest.mark.parametrize("platforms", [None, "cuda", "cuda,cpu", "cpu"])
def test_a_gpu_case_on_a_host_without_one_is_unavailable_and_never_a_cpu_row(monkeypatch, mode, platforms):
    if platforms is not None:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)

    outcome = outcome_of(mode, Backend.GPU)

    assert outcome.status is Status.UNAVAILABLE
    assert outcome.reason.startswith("jax has no usable gpu device here: ")
    assert "\n" not in outcome.reason
    assert outcome.readings == []


@jax_only
@pytest.mark.parametrize("platforms", ["cuda", "tpu", "nonsense"])
def test_a_cpu_case_stays_a_cpu_case_whatever_the_user_set(monkeypatch, platforms):
    monkeypatch.setenv("JAX_PLATFORMS", platforms)

    outcome = outcome_of("jit", Backend.CPU)

    assert outcome.status is Status.OK
    assert outcome.facts["device_platform"] == "cpu"


PLUGIN = """
def initialize():
    from jax._src import xla_bridge

    def client():
        raise RuntimeError("ABORTED: The TPU is already in use by process with pid {pid}. "
                           "Not attempting to load libtpu.so in this process.")

    xla_bridge._backend_factories.pop("tpu", None)
    xla_bridge.register_backend_factory("tpu", client, priority=300)
"""


@jax_only
def test_a_plugin_that_finds_its_device_locked_gives_device_busy_and_no_cpu_row(jax_plugin):
    jax_plugin(PLUGIN.format(pid=os.getpid()))

    outcome = outcome_of("jit", Backend.TPU)

    assert outcome.status is Status.UNAVAILABLE
    assert outcome.reason.startswith(f"device busy (jax, tpu): process {os.getpid()} holds it")
    assert outcome.readings == []


@jax_only
def test_what_decides_memory_and_precision_on_a_device_is_recorded():
    facts = outcome_of("jit", Backend.CPU).facts

    assert facts["memory_preallocated"] is False
    assert facts["matmul_precision"] == "default"
    assert {"device_kind", "device_platform", "device_memory_nbytes"} <= facts.keys()


@jax_only
@no_gpu
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_a_gpu_that_is_really_the_host_is_flagged_and_has_no_device_time(impostor, mode):
    outcome = outcome_of(mode, Backend.GPU)

    assert Flag.FALLBACK in {finding.flag for finding in outcome.findings}, outcome.reason
    assert "outputs live on cpu, the case says gpu" in {finding.reason for finding in outcome.findings}
    assert Phase.DEVICE not in {reading.phase for reading in outcome.readings}
    assert "no plane of a device" in outcome.facts["device_absent"]
