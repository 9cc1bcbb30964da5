"""A case's process goes through all of its phases in dtypes that NumPy alone does not have, too."""

from __future__ import annotations

import pytest

from kernels import floors
from kernels.measurement import Status
from kernels.phase import Phase

pytest.importorskip("jax")


def test_a_case_in_bfloat16_is_measured_and_its_work_is_in_two_bytes_a_number(run, case_of):
    outcome = run("brief", "jax/jit", "brief")
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    assert {Phase.COMPILE, Phase.STEADY} <= {reading.phase for reading in outcome.readings}
    assert floors.declared_work(case_of("brief", "jax/jit", "brief")).nbytes == 2 * 2 * 256
