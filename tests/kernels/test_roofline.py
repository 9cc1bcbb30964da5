"""The roofline: what the machine can do, and what share of it a timing reached."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import devices, floors, machine, roofline
from kernels.case import Backend, Case
from kernels.errors import UnavailableError
from kernels.frameworks import frameworks
from kernels.measurement import merge
from kernels.phase import Phase
from kernels.schedule import Bench, turns
from tests.kernels.conftest import TINY, case_of

ROOT = Path(__file__).resolve().parents[2]

ROOF = {
    "backend": "cpu",
    "copy_bytes_per_s": 1e10,
    "cache_bytes_per_s": 1e11,
    "operations_per_s_float32": 1e11,
    "operations_per_s_float64": 5e10,
}

positive = st.floats(1e3, 1e15)


@pytest.fixture(scope="module")
def measured():
    return roofline.measure(Backend.CPU, len(machine.affinity()))


def test_the_host_has_bandwidths_and_a_rate_for_each_dtype(measured):
    assert set(measured) == set(ROOF)
    assert measured["backend"] == "cpu"
    assert all(value > 0 for key, value in measured.items() if key != "backend")


def test_the_module_prints_one_json_line():
    done = subprocess.run(
        [sys.executable, "-m", "kernels.roofline", "cpu"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line).keys() == ROOF.keys()


@pytest.mark.parametrize("backend", [Backend.GPU, Backend.TPU])
def test_a_device_that_is_not_here_has_no_roofline(backend):
    if devices.present(backend):
        pytest.skip(f"there is a {backend} here")
    with pytest.raises(UnavailableError) as raised:
        roofline.measure(backend, 1)
    assert "\n" not in str(raised.value)


def test_a_process_that_never_ends_has_no_roofline(monkeypatch):
    monkeypatch.setattr(roofline, "DEADLINE_S", 0.01)
    with pytest.raises(UnavailableError, match=r"^no end after 0\.01 s$"):
        roofline.measure(Backend.CPU, 1)


@pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")
def test_a_device_is_measured_with_every_dtype_that_it_computes_in():
    script = (
        "import json; from kernels.case import Backend; from kernels.roofline import accelerator\n"
        "print(json.dumps(accelerator(Backend.CPU, nbytes=2**22, rows=64)))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    rates = {f"operations_per_s_{dtype}" for dtype in ("float32", "bfloat16", "float16", "float64")}
    assert found.keys() == {"copy_bytes_per_s", "cache_bytes_per_s"} | rates
    assert found["cache_bytes_per_s"] >= found["copy_bytes_per_s"] > 0


CASE = Case("dense", "jax", "jit", "M", "float32")


@given(positive, positive, positive)
def test_the_longer_of_bytes_and_operations_bounds_a_time(copy, cache, rate):
    roof = {"backend": "cpu", "copy_bytes_per_s": copy, "cache_bytes_per_s": cache, "operations_per_s_float32": rate}
    work = floors.declared_work(CASE)
    assert floors.attainable_ns(CASE, roof) == pytest.approx(1e9 * max(work.nbytes / copy, work.operations / rate))
    assert floors.floor_ns(CASE, roof) == pytest.approx(1e9 * max(work.nbytes / cache, work.operations / rate))


def test_a_dtype_without_a_rate_is_bounded_by_its_bytes():
    roof = {key: value for key, value in ROOF.items() if not key.startswith("operations")}
    work = floors.declared_work(CASE)
    assert floors.floor_ns(CASE, roof) == pytest.approx(1e9 * work.nbytes / 1e11)


@pytest.mark.parametrize(
    ("case", "roof"),
    [
        (CASE, {}),
        (CASE, {"backend": "cpu"}),
        (CASE, {**ROOF, "backend": "gpu"}),
        (Case("dense", "jax", "jit", "M", "float32", backend=Backend.GPU), ROOF),
        (Case("dense", "jax", "jit", "M", "float32", derivative=2), ROOF),
    ],
)
def test_what_a_roofline_does_not_cover_has_no_bound(case, roof):
    assert floors.floor_ns(case, roof) is None
    assert floors.attainable_ns(case, roof) is None


def test_a_gradient_takes_the_arithmetic_of_its_objective_at_least_and_its_bytes_are_not_known():
    gradient = Case("dense", "jax", "jit", "M", "float32", derivative=1)
    assert floors.floor_ns(gradient, ROOF) == pytest.approx(
        1e9 * floors.declared_work(CASE).operations / ROOF["operations_per_s_float32"]
    )
    assert floors.attainable_ns(gradient, ROOF) is None


def test_half_the_width_has_half_the_bytes():
    wide, narrow = (floors.declared_work(Case("sincos", "numpy", "eager", "S", d)) for d in ("float64", "float32"))
    assert wide.nbytes == 2 * narrow.nbytes


@given(positive, positive)
def test_the_share_is_one_on_the_roofline_and_more_above_it(elapsed, attainable):
    assert floors.share(attainable, attainable) == 1
    assert (floors.share(elapsed, attainable) > 1) == (elapsed < attainable)


def test_a_steady_row_says_its_share_and_a_case_without_a_roofline_says_none(isolation):
    case = case_of("sincos", "numpy/eager")
    bench = Bench(TINY, isolation, roofline=ROOF)
    try:
        for turn in turns([case], TINY):
            bench.take(turn)
        row, outcomes = bench.merged(case)
        without = merge(case, outcomes)
    finally:
        bench.close()
    steady = row.timings[Phase.STEADY]
    (samples,) = steady.per_call()
    assert row.facts["roofline_share"] == pytest.approx(floors.attainable_ns(case, ROOF) / median(samples))
    assert "roofline_share" not in without.facts
