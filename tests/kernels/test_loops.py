"""What the loops of a case are fed, and how many calls they time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kernels import loops, machine
from kernels.case import Backend
from kernels.frameworks import frameworks
from kernels.guards import Flag
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.timing import Sampling


def test_enqueue_takes_the_calls_of_a_steady_sample_for_its_own_clock_leaves_the_waiting_out(run):
    outcome = run("sincos", "jax/jit", size="L", dtype="float32", min_sample_ms=5.0)
    found = {reading.phase: reading for reading in outcome.readings}
    assert found[Phase.ENQUEUE].inner_calls == found[Phase.STEADY].inner_calls
    assert len(found[Phase.ENQUEUE].samples) >= 3


@pytest.fixture
def cold(monkeypatch):
    """``cold(nbytes)`` feeds a cold case of so large an input on a machine of 4 KiB of caches; gives feed and facts."""
    monkeypatch.setattr(machine, "last_level_cache_nbytes", lambda: 4096)
    monkeypatch.setattr(machine, "working_set_beyond_caches", lambda: 8192)

    def cold(nbytes, memory_mb=0, donates=()):
        facts, findings = {}, []
        process = SimpleNamespace(
            kernel=SimpleNamespace(donates=donates),
            sampling=Sampling(cold=True, memory_mb=memory_mb),
            inputs=(np.zeros(nbytes, np.uint8),),
            framework=frameworks()["numpy"](Backend.CPU, "float32"),
            fact=lambda **more: facts.update(more),
            flag=findings.extend,
        )
        feed, _ = loops.feed_of(process, process.framework.place(process.inputs))
        return feed, facts, findings

    return cold


@pytest.mark.parametrize(("nbytes", "copies"), [(1, 8192), (1000, 9), (8192, 2), (100_000, 2)])
def test_cold_inputs_rotate_through_more_than_the_caches_hold(cold, nbytes, copies):
    feed, facts, findings = cold(nbytes)
    assert facts == {"cold_nbytes": copies * nbytes, "cold_reached": True}
    assert findings == []
    assert len({id(x) for (x,) in feed(3 * copies)}) == copies


@pytest.mark.parametrize(("setting", "value"), [("COLD_COPIES", 3), ("COLD_S", 0.0), ("COPY_NBYTES", 2**19)])
def test_inputs_that_stay_in_the_caches_are_warm(cold, monkeypatch, setting, value):
    monkeypatch.setattr(loops, setting, value)
    _, facts, (finding,) = cold(1000, memory_mb=1)
    assert facts["cold_reached"] is False
    assert finding.flag is Flag.WARM
    assert finding.reason == f"cold inputs of {facts['cold_nbytes']} bytes stay within caches of 4096 bytes"


def test_a_machine_without_memory_for_more_than_its_caches_has_no_cold_inputs(cold, monkeypatch):
    monkeypatch.setattr(machine, "working_set_beyond_caches", lambda: 2048)
    _, facts, (finding,) = cold(1024)
    assert facts == {"cold_nbytes": 2048, "cold_reached": False}
    assert finding.flag is Flag.WARM


def test_a_kernel_that_consumes_its_inputs_is_warm(cold):
    _, facts, (finding,) = cold(100_000, donates=(0,))
    assert facts == {"cold_reached": False}
    assert finding.flag is Flag.WARM


def test_a_single_number_cannot_be_cold_and_its_row_says_so(measure):
    row = measure("double", "numpy/eager", cold=True)
    assert row.status is Status.OK
    assert row.facts["cold_reached"] is False
    assert Flag.WARM in row.timings[Phase.STEADY].flags
