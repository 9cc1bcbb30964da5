"""Time on the device comes from the device's own planes, or is absent."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import procedure
from kernels.assignment import Assignment, Role
from kernels.case import Backend, Case
from kernels.device_trace import Interval, Line, NoDeviceTimeError, Plane, device_time, union
from kernels.frameworks import frameworks
from kernels.frameworks.numpy import NumPy
from kernels.phase import Phase
from kernels.timing import Sampling

jax_only = pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")

HOST = Plane("/host:CPU", (Line("python", (Interval(0, 9e9, "everything"),)),))


def gpu(*streams, extra=()):
    lines = [
        Line(f"Stream #{number}(Compute)", tuple(Interval(*interval) for interval in intervals))
        for number, intervals in enumerate(streams, start=13)
    ]
    return Plane("/device:GPU:0", (*lines, *extra))


def test_busy_time_is_the_union_of_the_streams_and_not_their_sum():
    planes = [HOST, gpu([(100, 50, "fusion"), (200, 50, "fusion_1")], [(120, 100, "gemm")])]

    time = device_time(planes, wall_ns=1_000)

    assert (time.busy_ns, time.span_ns, time.kernels) == (150, 150, 3)


def test_gaps_between_kernels_are_in_the_span_and_not_in_the_busy_time():
    time = device_time([gpu([(0, 10, "a"), (990, 10, "b")])], wall_ns=1_000)

    assert (time.busy_ns, time.span_ns) == (20, 1_000)


def test_copies_and_fills_are_work_of_the_device_but_no_kernels():
    time = device_time([gpu([(0, 10, "MemcpyD2D"), (10, 5, "Memset"), (15, 10, "fusion")])], wall_ns=100)

    assert (time.busy_ns, time.kernels) == (25, 1)


def test_lines_drawn_from_the_streams_do_not_count():
    module = Line("XLA Modules", (Interval(0, 900, "jit_f"),))
    steps = Line("Steps", (Interval(0, 990, "1"),))

    time = device_time([gpu([(0, 10, "fusion")], extra=(module, steps))], wall_ns=1_000)

    assert (time.busy_ns, time.kernels) == (10, 1)


def test_a_tpu_counts_its_operations_and_not_its_modules():
    lines = (
        Line("XLA Modules", (Interval(0, 100, "jit_f(1)"),)),
        Line("XLA Ops", (Interval(10, 30, "%fusion"), Interval(40, 20, "%dot"))),
        Line("Steps", (Interval(0, 100, "0"),)),
    )

    time = device_time([Plane("/device:TPU:0", lines), HOST], wall_ns=200)

    assert (time.busy_ns, time.span_ns, time.kernels) == (50, 50, 2)


@pytest.mark.parametrize(
    ("planes", "words"),
    [
        ([], "no plane of a device, only nothing"),
        ([HOST, Plane("/host:metadata", ())], "no plane of a device, only /host:CPU, /host:metadata"),
        ([Plane("/device:CUSTOM:0", (Line("Stream #1", (Interval(0, 1, "x"),)),))], "no plane of a device"),
        ([Plane("/device:GPU:0", ())], "no work of the device, only no line"),
        ([Plane("/device:GPU:0", (Line("XLA Ops", (Interval(0, 1, "x"),)),))], "no work of the device, only XLA Ops"),
        ([gpu([])], "no work of the device"),
        ([gpu([(0, 1_001, "fusion")])], "1001 ns of work in calls that lasted 1000 ns"),
    ],
)
def test_what_a_profile_does_not_tell_is_absent_with_a_reason(planes, words):
    with pytest.raises(NoDeviceTimeError, match=words):
        device_time(planes, wall_ns=1_000)


# Whole nanoseconds up to an hour: profiles begin at their own zero.
intervals = st.lists(
    st.builds(Interval, st.integers(0, 10_000), st.integers(0, 3_000), st.just("k")), min_size=1, max_size=30
)


@given(intervals)
def test_the_union_is_what_counting_nanoseconds_gives(given_intervals):
    covered = np.zeros(20_000, dtype=bool)
    for interval in given_intervals:
        covered[interval.start_ns : interval.start_ns + interval.duration_ns] = True

    busy, span = union(given_intervals)

    assert busy == covered.sum()
    assert span == max(i.start_ns + i.duration_ns for i in given_intervals) - min(i.start_ns for i in given_intervals)


fractional = st.lists(
    st.builds(Interval, st.floats(0, 3.6e12), st.floats(0, 1e10), st.just("k")), min_size=1, max_size=30
)


@given(fractional, st.randoms())
def test_the_union_is_bounded_by_span_and_sum_and_ignores_order_and_repeats(given_intervals, random):
    busy, span = union(given_intervals)

    assert max(int(i.duration_ns) for i in given_intervals) - 1 <= busy <= span
    assert busy <= sum(i.duration_ns for i in given_intervals) + 1
    shuffled = random.sample(given_intervals, len(given_intervals))
    assert union(shuffled + given_intervals) == (busy, span)


@given(fractional)
def test_a_moved_profile_tells_the_same(given_intervals):
    whole = [Interval(round(i.start_ns), round(i.duration_ns), i.name) for i in given_intervals]
    moved = [Interval(i.start_ns + 12_345, i.duration_ns, i.name) for i in whole]

    assert union(moved) == union(whole)


def in_a_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@jax_only
def test_a_real_profile_of_the_host_holds_work_and_none_of_it_is_the_devices():
    planes = in_a_process(
        """
import json
import numpy as np
from kernels.case import Backend
from kernels.device_trace import NoDeviceTimeError, device_time
from kernels.frameworks.jax import Jax

jax = Jax(Backend.CPU, "float32")
jax.first_program()
(x,) = jax.place((np.ones((300, 300), np.float32),))
call = jax._jax.jit(lambda x: x @ x)
call(x).block_until_ready()
planes = jax.profile(lambda: [call(x).block_until_ready() for _ in range(5)])
try:
    device_time(planes, 10**12)
except NoDeviceTimeError as error:
    said = str(error)
work = sum(interval.duration_ns for plane in planes for line in plane.lines for interval in line.intervals)
print(json.dumps([[plane.name for plane in planes], work, said]))
"""
    )

    names, work_ns, said = planes
    assert "/host:CPU" in names
    assert work_ns > 0
    assert "no plane of a device" in said


@jax_only
def test_a_profile_of_a_gpu_is_read_by_jaxs_own_reader():
    found = in_a_process(
        """
import json
from jax.profiler import ProfileData
from kernels.device_trace import device_time
from kernels.frameworks.jax import planes

profile = ProfileData.from_text_proto('''
planes {
  name: "/device:GPU:0"
  lines { name: "Stream #14(Compute)" timestamp_ns: 5000
    events { metadata_id: 1 offset_ps: 1000500 duration_ps: 2000000 }
    events { metadata_id: 2 offset_ps: 2000500 duration_ps: 3000000 } }
  lines { name: "Stream #15(MemcpyD2D)" timestamp_ns: 5000
    events { metadata_id: 3 offset_ps: 9000500 duration_ps: 1000000 } }
  lines { name: "XLA Modules" timestamp_ns: 5000
    events { metadata_id: 1 offset_ps: 0 duration_ps: 90000000 } }
  event_metadata { key: 1 value { id: 1 name: "fusion" } }
  event_metadata { key: 2 value { id: 2 name: "gemm" } }
  event_metadata { key: 3 value { id: 3 name: "MemcpyD2D" } }
}
planes { name: "/host:CPU" lines { name: "python" events { metadata_id: 1 duration_ps: 99000000000 } } }
''')
time = device_time(planes(profile), 100_000)
print(json.dumps([time.busy_ns, time.span_ns, time.kernels]))
"""
    )

    # 1.0 to 5.0 us and 9.0 to 10.0 us, in which two kernels ran.
    assert found == [5_000, 9_000, 2]


class Profiled(NumPy):
    """NumPy, as if it had a device: each call is two kernels of a tenth of a microsecond, a microsecond apart."""

    PROFILED = (Backend.CPU,)
    KERNELS = 2
    DURATION_NS = 100.0
    DEVICE = "/device:GPU:0"

    def __init__(self, *args):
        super().__init__(*args)
        self.calls = 0

    def program(self, kernel, case):
        program = super().program(kernel, case)
        whole = program.call

        def counted(*args):
            self.calls += 1
            return whole(*args)

        program.call = counted
        return program

    def profile(self, run):
        before = self.calls
        run()
        count = self.KERNELS * (self.calls - before)
        events = [Interval(1_000.0 * i, self.DURATION_NS, "fusion") for i in range(count)]
        return [HOST, Plane(self.DEVICE, (Line("Stream #1", tuple(events)),))]


def records_of(monkeypatch, adapter):
    monkeypatch.setattr(procedure, "frameworks", lambda: {"numpy": adapter})
    records = []
    case = Case("sincos", "numpy", "eager", "S", "float64")
    sampling = Sampling(rounds=1, budget_s=0.02, min_sample_ms=0.5, warmup_ms=1.0)
    procedure.perform(Assignment(case, Role.STEADY, sampling), records.append)
    readings = {record["phase"]: record for record in records if record["kind"] == "reading"}
    facts = {key: value for record in records if record["kind"] == "facts" for key, value in record["facts"].items()}
    return readings, facts


def test_a_case_on_a_device_has_a_device_reading_and_says_what_ran(monkeypatch):
    readings, facts = records_of(monkeypatch, Profiled)

    device = readings["device"]
    assert device["samples"] == [200 * device["inner_calls"]] * 3
    assert device["inner_calls"] <= 64
    assert facts["device_kernels"] == 2
    assert facts["device_span_ns"] == pytest.approx(2_000, rel=0.5)
    assert "device_absent" not in facts


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DEVICE": "/host:GPU"}, "no plane of a device"),
        ({"DURATION_NS": 1e12}, "in calls that lasted"),
        ({"KERNELS": 0}, "no work of the device"),
    ],
)
def test_without_a_true_device_time_there_is_no_reading_and_a_fact_says_so(monkeypatch, changes, words):
    readings, facts = records_of(monkeypatch, type("Lying", (Profiled,), changes))

    assert "steady" in readings
    assert "device" not in readings
    assert words in facts["device_absent"]


def test_a_profiler_that_loses_kernels_gives_no_reading(monkeypatch):
    class Losing(Profiled):
        def profile(self, run):
            self.KERNELS += 1
            return super().profile(run)

    readings, facts = records_of(monkeypatch, Losing)

    assert "device" not in readings
    assert "the profiler lost some" in facts["device_absent"]


def test_the_device_phase_is_planned_on_accelerators_alone():
    jax = frameworks()["jax"]

    assert Phase.DEVICE not in jax.phases("jit", Backend.CPU)
    assert Phase.DEVICE in jax.phases("jit", Backend.GPU)
    assert Phase.DEVICE in jax.phases("eager", Backend.TPU)
    assert Phase.DEVICE not in frameworks()["numpy"].phases("eager", Backend.CPU)
