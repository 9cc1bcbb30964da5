"""A timing under a clock that heat or power held back is flagged; a healthy clock, or an unknown one, is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import clocks, guards
from kernels.case import Backend
from kernels.clocks import Clocks
from kernels.guards import Flag
from kernels.phase import REPEATED


class Processors:
    """A directory as the system's for processors."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, number: int, **files: int) -> None:
        for name, value in files.items():
            folder = "thermal_throttle" if name.endswith("count") else "cpufreq"
            path = self.root / f"cpu{number}" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")

    def read(self, running: int = 0) -> Clocks:
        return clocks.processors([0, 1], running, self.root)


@pytest.fixture
def processors(tmp_path):
    return Processors(tmp_path)


def judged(before, after):
    return [finding.reason for finding in guards.throttled(before, after)]


def test_a_machine_that_tells_nothing_is_not_flagged(processors):
    nothing = processors.read()
    assert nothing == Clocks()
    assert judged(nothing, nothing) == []


@pytest.mark.parametrize("count", ["core_throttle_count", "package_throttle_count"])
def test_a_throttle_count_that_rises_during_the_loop_is_flagged(processors, count):
    processors.write(1, **{count: 5})
    before = processors.read()
    processors.write(1, **{count: 8})
    (reason,) = judged(before, processors.read())
    assert "by heat 3 times" in reason


def test_a_throttle_count_from_before_the_loop_is_history(processors):
    processors.write(0, core_throttle_count=1000, package_throttle_count=2000)
    assert judged(processors.read(), processors.read()) == []


def test_a_clock_below_its_base_is_flagged(processors):
    processors.write(0, scaling_cur_freq=1_200_000, cpuinfo_max_freq=4_000_000, base_frequency=2_100_000)
    (reason,) = judged(processors.read(), processors.read())
    assert "1200 MHz, below its base of 2100" in reason


@pytest.mark.parametrize("khz", [2_100_000, 2_000_000, 3_900_000])
def test_a_clock_between_base_and_turbo_is_honest(processors, khz):
    processors.write(0, scaling_cur_freq=khz, cpuinfo_max_freq=4_000_000, base_frequency=2_100_000)
    assert judged(processors.read(), processors.read()) == []


def test_without_a_base_half_of_the_highest_clock_serves(processors):
    processors.write(0, scaling_cur_freq=1_500_000, cpuinfo_max_freq=4_000_000)
    assert len(judged(processors.read(), processors.read())) == 1
    processors.write(0, scaling_cur_freq=2_000_000)
    assert judged(processors.read(), processors.read()) == []


def test_only_the_processor_that_ran_is_judged_by_its_clock(processors):
    processors.write(0, scaling_cur_freq=3_000_000, cpuinfo_max_freq=3_000_000)
    processors.write(1, scaling_cur_freq=400_000, cpuinfo_max_freq=3_000_000)
    assert judged(processors.read(running=0), processors.read(running=0)) == []


def test_the_processor_that_ran_last_is_one_that_this_process_may_use():
    number = clocks.last_processor()
    assert number is None or number in os.sched_getaffinity(0)


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_processor(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("7 (a (b) c) R " + " ".join(str(field) for field in range(4, 53)) + "\n")
    assert clocks.last_processor(stat) == 39


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """``smi(answer)`` puts an ``nvidia-smi`` on the path that gives an answer; ``smi.calls()`` gives its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    log = tmp_path / "calls"

    def put(answer, refuses="nothing"):
        program = folder / "nvidia-smi"
        program.write_text(
            f'#!/bin/sh\necho "$*" >> {log}\n'
            f'case "$*" in *{refuses}*) echo "Field is not a valid field to query."; exit 2;; esac\necho "{answer}"\n'
        )
        program.chmod(0o755)

    put.calls = lambda: log.read_text().splitlines() if log.exists() else []
    return put


def test_a_device_in_heat_is_flagged_with_its_clock(smi):
    smi("1200, 1980, 0x0000000000000020")
    (reason,) = judged(Clocks(), clocks.read(Backend.GPU))
    assert "1200 of 1980 MHz" in reason
    assert "thermal" in reason
    assert len(smi.calls()) == 1


@pytest.mark.parametrize("bits", ["0x0", "0x1", "0x2", "0x4", "0x10", "0x100"])
def test_an_idle_a_set_or_a_power_limited_clock_is_honest(smi, bits):
    smi(f"1500, 1980, {bits}")
    assert judged(Clocks(), clocks.read(Backend.GPU)) == []


def test_a_power_limit_that_takes_half_the_clock_is_flagged(smi):
    smi("700, 1980, 0x4")
    (reason,) = judged(Clocks(), clocks.read(Backend.GPU))
    assert "power limit" in reason


def test_an_older_driver_is_asked_by_its_own_name_for_the_reasons(smi):
    smi("1980, 1980, 0x8", refuses="clocks_event_reasons")
    assert clocks.gpu(None) == (1980.0, 1980.0, 0x8)
    assert "clocks_throttle_reasons" in smi.calls()[-1]


@pytest.mark.parametrize("answer", ["[N/A], [N/A], [N/A]", "", "No devices were found", "1, 2, 3, 4"])
def test_a_device_that_tells_nothing_is_not_flagged(smi, answer):
    smi(answer)
    assert judged(Clocks(), clocks.read(Backend.GPU)) == []


def test_the_first_visible_device_is_asked(smi):
    smi("1980, 1980, 0x0")
    clocks.gpu("3,1")
    assert "--id=3" in smi.calls()[0]
    assert clocks.gpu("") == clocks.gpu("-1") == (None, None, None)
    assert len(smi.calls()) == 1


def test_no_program_is_started_before_the_loop_nor_on_a_host(smi):
    smi("1980, 1980, 0x0")
    clocks.read(Backend.GPU, device=False)
    clocks.read(Backend.CPU)
    assert smi.calls() == []


def test_without_the_tool_nothing_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clocks.gpu(None) == (None, None, None)


def test_a_steady_row_has_the_clocks_that_the_machine_tells(run):
    outcome = run("sincos", "numpy/eager")
    assert outcome.status == "ok"
    told = clocks.read(Backend.CPU).facts()
    assert told.keys() <= outcome.facts.keys()


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_finding_falsifies_the_repeated_phases_and_no_other(before, after):
    found = guards.throttled(Clocks(cpu_throttles=before), Clocks(cpu_throttles=after))
    assert bool(found) == (after > before)
    for finding in found:
        assert finding.flag is Flag.THROTTLED
        assert set(finding.phases) == REPEATED
