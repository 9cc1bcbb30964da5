"""The doctor names what falsifies timings here, and how to mend each thing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import devices, doctor, framework_check, host_check, machine
from kernels.case import Backend
from kernels.doctor import Check
from kernels.frameworks import frameworks
from kernels.variables import DROPPED, environment

ROOT = Path(__file__).resolve().parents[2]

jax_only = pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")


def test_what_is_off_says_how_to_mend_it_and_what_is_well_asks_for_nothing():
    for check in doctor.examine(["numpy", "python"], list(Backend)):
        assert check.name
        assert check.found
        assert "\n" not in check.found + check.mend
        assert bool(check.mend) == (not check.ok)


def test_the_quick_look_starts_no_process(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "fork", refuse)
    assert all(isinstance(check, Check) for check in doctor.quick())


def test_the_module_prints_a_table_and_its_status_says_whether_all_is_well():
    command = [sys.executable, "-m", "kernels.doctor"]
    variables = {**os.environ, "OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=variables, timeout=200, check=False)
    assert done.returncode == 1
    assert done.stderr == ""
    (line,) = [line for line in done.stdout.splitlines() if "OPENBLAS_CORETYPE=Prescott" in line]
    assert line.startswith("OFF")
    assert "mend: unset OPENBLAS_CORETYPE" in done.stdout


# Variables


def only(name, value):
    (check,) = framework_check.variables({"HOME": "/home/me", name: value})
    return check


@pytest.mark.parametrize(
    "name",
    ["OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "JAX_DISABLE_JIT", "JAX_ENABLE_X64", "NUMBA_DISABLE_JIT",
     "JAX_COMPILATION_CACHE_DIR", "NUMBA_CACHE_DIR", "TORCH_COMPILE_DISABLE", "LD_PRELOAD"],
)  # fmt: skip
def test_a_variable_that_changes_a_library_or_its_cache_is_off(name):
    check = only(name, "1")
    assert not check.ok
    assert f"{name}=1" in check.found
    assert check.mend == f"unset {name}"


@pytest.mark.parametrize("name", sorted(framework_check.CHANGES))
def test_it_says_of_each_variable_whether_runs_drop_it(name, monkeypatch):
    monkeypatch.setenv(name, "x")
    assert ("runs drop it" in only(name, "x").found) == (name not in environment(2))
    assert ("runs drop it" in only(name, "x").found) == name.startswith(DROPPED)


def test_platforms_that_fall_back_are_off_and_a_single_one_is_shown():
    assert not only("JAX_PLATFORMS", "cuda,cpu").ok
    assert only("JAX_PLATFORMS", "cpu").ok


@pytest.mark.parametrize("name", ["XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "JAX_TRACEBACK_FILTERING"])
def test_a_variable_that_may_be_meant_is_shown(name):
    check = only(name, "value")
    assert check.ok
    assert f"{name}=value" in check.found


def test_an_environment_without_any_is_said_to_be_so():
    assert framework_check.variables({"HOME": "/home/me"}) == [
        Check("variable", True, "none that slows or changes a framework")
    ]


# Threads


def test_threads_as_many_as_processors_are_well():
    assert host_check.threads({"OMP_NUM_THREADS": "4"}, quota=4.0, processors=4).ok


def test_a_quota_below_the_processors_is_off():
    check = host_check.threads({}, quota=1.5, processors=8)
    assert not check.ok
    assert "8 processors" in check.found
    assert "1.5" in check.found
    assert "taskset -c 0-0" in check.mend


@pytest.mark.parametrize("name", host_check.THREAD_VARIABLES)
def test_a_thread_count_that_runs_do_not_follow_is_off(name):
    check = host_check.threads({name: "16"}, quota=4.0, processors=4)
    assert not check.ok
    assert f"{name}=16" in check.found


# The state of the host


@pytest.mark.parametrize(("text", "ok"), [("performance", True), ("powersave", False), ("schedutil", False)])
def test_any_governor_but_performance_is_off(tmp_path, text, ok):
    for number in machine.affinity():
        file = tmp_path / f"cpu{number}/cpufreq/scaling_governor"
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
    check = host_check.governor(tmp_path)
    assert check.ok is ok
    assert text in check.found


def test_a_machine_that_tells_nothing_of_its_clocks_is_not_held_guilty(tmp_path):
    assert host_check.governor(tmp_path).ok
    assert host_check.turbo(tmp_path).ok


@pytest.mark.parametrize(("file", "value", "word"), [
    ("intel_pstate/no_turbo", "0", "on"), ("intel_pstate/no_turbo", "1", "off"),
    ("cpufreq/boost", "1", "on"), ("cpufreq/boost", "0", "off"),
])  # fmt: skip
def test_turbo_is_a_fact_to_know(tmp_path, file, value, word):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(value)
    check = host_check.turbo(tmp_path)
    assert check.ok
    assert check.found.startswith(word)


@pytest.mark.parametrize(("free_kb", "ok"), [(1_000_000, True), (999_000, True), (500_000, False)])
def test_memory_in_swap_is_off(tmp_path, free_kb, ok):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 8 kB\nSwapTotal:  1000000 kB\nSwapFree:   {free_kb} kB\n")
    assert host_check.swap(meminfo).ok is ok


@pytest.mark.parametrize(
    ("spent", "others", "steal"),
    [
        ((0, 0, 0, 60, 0, 0, 0, 0), True, True),
        ((30, 0, 0, 30, 0, 0, 0, 0), False, True),
        ((0, 0, 0, 40, 0, 0, 0, 20), True, False),
        ((0, 0, 0, 30, 30, 0, 0, 0), True, True),
    ],
)
def test_what_others_use_and_what_the_hypervisor_keeps_are_off(monkeypatch, spent, others, steal):
    readings = iter([[100] * 8, [100 + ticks for ticks in spent]])
    monkeypatch.setattr(host_check, "_ticks", lambda: next(readings))
    assert [check.ok for check in host_check.processors(0.0)] == [others, steal]


def test_a_busy_minute_is_off(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    assert host_check.load().ok
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert not host_check.load().ok


# Frameworks


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A framework of twenty modules that is installed without compiled files; ``package(n)`` compiles n of them."""
    folder = tmp_path / "bare_framework"
    folder.mkdir()
    for number in range(20):
        (folder / f"part{number}.py").touch()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    class Bare(frameworks()["numpy"]):
        MODULE = "bare_framework"
        DISTRIBUTIONS = ()

    monkeypatch.setitem(frameworks(), "bare", Bare)

    def compile_some(count):
        for source in sorted(folder.glob("*.py"))[:count]:
            compiled = Path(importlib.util.cache_from_source(str(source)))
            compiled.parent.mkdir(exist_ok=True)
            compiled.touch()

    return compile_some


def test_modules_without_compiled_files_are_off(package, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    check = framework_check.compiled_files("bare")
    assert not check.ok
    assert "21 of 21" in check.found
    assert check.mend.startswith("unset PYTHONDONTWRITEBYTECODE")
    assert "compileall" in check.mend


def test_a_few_modules_that_nobody_imported_are_well(package):
    package(20)
    assert framework_check.compiled_files("bare").ok


@jax_only
def test_jax_opens_no_device_before_the_fork():
    assert framework_check.preloaded("jax").ok


def sitecustomize(monkeypatch, folder, code):
    """Let every interpreter run code once jax.numpy is imported, as a plugin or a .pth file does."""
    (folder / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@jax_only
def test_a_device_that_is_open_before_the_fork_is_off(tmp_path, monkeypatch):
    sitecustomize(monkeypatch, tmp_path, "import jax\njax.devices('cpu')\n")
    check = framework_check.preloaded("jax")
    assert not check.ok
    assert "opens its device" in check.found


def test_a_thread_before_the_fork_is_off(tmp_path, monkeypatch):
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
    sitecustomize(monkeypatch, tmp_path, code)
    check = framework_check.preloaded("numpy")
    assert not check.ok
    assert "starts threads on import, before the fork: 1" in check.found


def test_a_framework_that_breaks_on_import_is_off(tmp_path, monkeypatch):
    sitecustomize(monkeypatch, tmp_path, "import os\nos._exit(3)\n")
    check = framework_check.preloaded("numpy")
    assert not check.ok
    assert "cannot be imported" in check.found


# Devices


def test_a_device_that_is_absent_is_off(monkeypatch):
    monkeypatch.setattr(devices, "holders", lambda backend: [])
    monkeypatch.setattr(devices, "present", lambda backend: False)
    check = framework_check.device(Backend.GPU)
    assert not check.ok
    assert "absent" in check.found


def test_a_device_that_a_process_holds_is_off_with_its_name(monkeypatch):
    monkeypatch.setattr(devices, "holders", lambda backend: [os.getpid()])
    check = framework_check.device(Backend.TPU)
    assert not check.ok
    assert f"{os.getpid()} ({Path('/proc/self/comm').read_text().strip()})" in check.found


def test_a_program_that_keeps_a_device_awake_is_not_its_user(monkeypatch):
    monkeypatch.setattr(devices, "holders", lambda backend: [os.getpid()])
    monkeypatch.setattr(devices, "present", lambda backend: True)
    monkeypatch.setattr(framework_check, "KEEPERS", {Path("/proc/self/comm").read_text().strip()})
    assert framework_check.device(Backend.GPU).ok


def test_a_lock_that_nobody_holds_is_to_be_removed(monkeypatch, tmp_path):
    lock = tmp_path / "libtpu_lockfile"
    lock.touch()
    monkeypatch.setattr(devices, "holders", lambda backend: [])
    monkeypatch.setattr(devices, "present", lambda backend: True)
    monkeypatch.setattr(framework_check, "_TPU_LOCK", lock)
    check = framework_check.device(Backend.TPU)
    assert not check.ok
    assert check.mend == f"rm {lock}"
    lock.unlink()
    assert framework_check.device(Backend.TPU).ok
