"""The loops of a case share a call count where one of them cannot find its own."""

from __future__ import annotations

from kernels.phase import Phase


def test_enqueue_takes_the_calls_of_a_steady_sample_for_its_own_clock_leaves_the_waiting_out(run):
    outcome = run("sincos", "jax/jit", size="L", dtype="float32", min_sample_ms=5.0)
    found = {reading.phase: reading for reading in outcome.readings}
    assert found[Phase.ENQUEUE].inner_calls == found[Phase.STEADY].inner_calls
    assert len(found[Phase.ENQUEUE].samples) >= 3
