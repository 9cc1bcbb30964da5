"""Startup is timed in a fresh interpreter, part by part, and is absent where the device is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import startup
from kernels.assignment import Role
from kernels.case import Backend, Case
from kernels.errors import UnavailableError
from kernels.frameworks import frameworks
from kernels.measurement import Outcome, Status, merge
from kernels.phase import Phase

INSTALLED = [name for name, adapter in frameworks().items() if adapter.installed()]


@pytest.mark.parametrize("framework", INSTALLED)
def test_the_parts_are_positive_and_make_the_whole(framework):
    reading = startup.measure(framework, Backend.CPU, threads=1)

    assert reading.phase is Phase.STARTUP
    assert list(reading.parts) == ["interpreter", "import", "device", "program"]
    assert all(ns > 0 for ns in reading.parts.values())
    assert reading.samples == (sum(reading.parts.values()),)


@pytest.mark.skipif("jax" not in INSTALLED, reason="jax is not installed")
def test_opening_a_device_and_the_first_program_stand_apart_from_the_import():
    reading = startup.measure("jax", Backend.CPU, threads=1)

    # JAX's first compilation takes tens of milliseconds; a compiled call takes microseconds.
    assert reading.parts["program"] > 1_000_000


@pytest.mark.skipif("jax" not in INSTALLED, reason="jax is not installed")
def test_the_first_program_is_counted_as_the_framework_counts_it():
    events = startup.measure("jax", Backend.CPU, threads=1).events
    assert events["traces"] >= 1
    assert events["compiles"] == 1
    assert events["cache_hits"] == 0


@pytest.mark.skipif("jax" not in INSTALLED, reason="jax is not installed")
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_has_no_startup():
    with pytest.raises(UnavailableError, match=r"(?i)gpu|cuda"):
        startup.measure("jax", Backend.GPU, threads=1)


def test_an_interpreter_that_never_ends_has_no_startup(monkeypatch, tmp_path):
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}")
    monkeypatch.setattr(frameworks()["numpy"], "PRELOAD", ("hangs",))
    monkeypatch.setattr(startup, "DEADLINE_S", 0.5)

    with pytest.raises(UnavailableError, match=r"^no end after 0\.5 s$"):
        startup.measure("numpy", Backend.CPU, threads=1)


def test_the_users_cache_and_platform_variables_do_not_reach_the_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_PLATFORMS", "nonsense")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    for framework in {"jax", "numba"} & set(INSTALLED):
        assert startup.measure(framework, Backend.CPU, threads=1).phase is Phase.STARTUP


def test_a_row_tells_the_parts_as_facts():
    reading = startup.measure("numpy", Backend.CPU, threads=1)
    case = Case("sincos", "numpy", "eager", "S", "float64")

    row = merge(case, [Outcome(Role.STEADY, Status.OK)], reading)

    assert row.timings[Phase.STARTUP].samples == (reading.samples,)
    assert row.facts["startup_import_ns"] == reading.parts["import"]
    assert {name for name in row.facts if name.startswith("startup_")} == {
        "startup_interpreter_ns", "startup_import_ns", "startup_device_ns", "startup_program_ns",
    }  # fmt: skip
