"""The health check: one real operation on a backend, and one line where it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kernels import devices
from kernels.case import Backend
from kernels.variables import ROOT


def health(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "JITMATRIX_BACKEND"}
    return subprocess.run(
        [sys.executable, "-m", "kernels.health", *arguments],
        cwd=ROOT, env={**kept, **variables}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_a_backend_that_computes_is_well():
    done = health()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("jax computes on cpu: ready after ")


@pytest.mark.skipif(devices.present(Backend.GPU), reason="this machine has a GPU")
def test_a_gpu_image_without_a_gpu_says_so_in_one_line_and_computes_nowhere_else():
    done = health(JITMATRIX_BACKEND="gpu")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("jitmatrix: jax has no usable gpu device here: ")


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["gpx"], {}, "unknown backend 'gpx' (health): choose from cpu, gpu, tpu; did you mean gpu?"),
        ([], {"JITMATRIX_BACKEND": "gpx"}, "unknown backend 'gpx' (JITMATRIX_BACKEND): choose from cpu, gpu, tpu"),
        (["cpu", "gpu"], {}, "give one backend, or none for that of JITMATRIX_BACKEND"),
    ],
)
def test_a_backend_that_there_is_not_is_the_users_to_mend(arguments, variables, said):
    done = health(*arguments, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
