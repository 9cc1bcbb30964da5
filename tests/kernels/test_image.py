"""Image: the backend that it is for is the default of a run in it, and what it computes has that name or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kernels import devices, image
from kernels.case import Backend
from kernels.errors import UsageError
from kernels.variables import ROOT


def test_a_run_that_names_no_backend_takes_the_images(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "tpu")
    assert image.chosen([]) == ("tpu",)
    assert image.chosen(["cpu", "gpu"]) == ("cpu", "gpu")


@pytest.mark.parametrize("variables", [{}, {image.VARIABLE: ""}])
def test_outside_of_images_the_matrix_keeps_its_own(monkeypatch, variables):
    monkeypatch.delenv(image.VARIABLE, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert image.chosen([]) == ()


def test_a_variable_that_names_no_backend_is_the_users_to_mend(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "cuda")
    with pytest.raises(UsageError, match=r"unknown backend 'cuda' \(JITMATRIX_BACKEND\): choose from cpu, gpu, tpu"):
        image.chosen([])
    assert image.chosen(["cpu"]) == ("cpu",)


@pytest.mark.skipif(devices.present(Backend.GPU), reason="this machine has a GPU")
def test_a_gpu_image_without_a_gpu_measures_nothing_under_any_name():
    words = "-m kernels --kernel double --framework jax/jit --size S --dtype float32 --rounds 1"
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=ROOT, env={**os.environ, image.VARIABLE: "gpu"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, row["case"]["backend"], row["status"]) == (1, "gpu", "unavailable")
    assert "jax has no usable gpu device here" in row["reason"]
