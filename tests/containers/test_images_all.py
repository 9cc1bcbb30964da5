"""The other images, built as far as this machine lets them be; ``make test-containers-all`` runs this, once a night."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from containers import locks, run
from containers.build import build
from containers.engine import Engine
from containers.variant import FOLDER, Variant
from kernels import devices
from kernels.case import Backend

pytestmark = [
    pytest.mark.timeout(5400),
    pytest.mark.skipif(os.environ.get("JITMATRIX_CONTAINERS") != "all", reason="run by make test-containers-all"),
]

OTHER_JAX = "0.11.0"


def ran(engine: Engine, image: str, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [engine.name, "run", "--rm", *run.HARDENING, "--network=none", *options, image, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    ("backend", "extras", "modules"), [("tpu", "", "jax"), ("gpu", "", "jax"), ("gpu", "torch", "jax, torch")]
)
def test_an_image_installs_and_without_its_device_measures_nothing(
    engine: Engine, base_image: str, backend: str, extras: str, modules: str, tmp_path: Path
) -> None:
    told = build(Variant.of(backend, extras), engine, base_image)
    image = str(told["image"])
    seen = ran(engine, image, "python", "-c", f"import {modules}; print(jax.__version__)")
    assert (seen.returncode, seen.stdout.count("\n")) == (0, 1), seen.stderr
    if devices.present(Backend(backend)):
        well = ran(engine, image, "python", "-m", "kernels.health", options=tuple(engine.device_options(backend)))
        assert well.stdout.startswith(f"jax computes on {backend}: "), well.stderr
        return
    absent = ran(engine, image, "python", "-m", "kernels.health")
    # What an engine itself says on standard error, such as of systemd that is not there, is not the image's.
    said = [line for line in absent.stderr.splitlines() if "level=" not in line]
    assert (absent.returncode, absent.stdout, len(said)) == (1, "", 1), absent.stderr
    assert said[0].startswith(f"jitmatrix: jax has no usable {backend} device here: ")
    tmp_path.chmod(0o777)
    words = "jitmatrix bench --matrix smoke --kernel double --framework jax/jit --quick"
    done = ran(engine, image, *words.split(), options=(f"--volume={tmp_path}:/var/lib/jitmatrix",))
    assert done.returncode == 1, done.stdout + done.stderr
    (file,) = tmp_path.glob("results/timings/*/*.parquet")
    rows = pq.ParquetFile(file).read(["backend", "status"]).to_pylist()
    assert {(row["backend"], row["status"]) for row in rows} == {(backend, "unavailable")}


def wheel_fits(engine: Engine, base: str) -> bool:
    """Whether containers/wheels has PyTorch for the base's Python; its own index is in reach of no test."""
    code = "import sys; print('cp%d%d' % sys.version_info[:2])"
    command = [engine.name, "run", "--rm", base, "python3", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return any((FOLDER / "wheels").glob(f"torch-*-{told}-*.whl"))


@pytest.mark.parametrize(
    ("extras", "jax", "framework", "distribution", "version"),
    [
        ("", OTHER_JAX, "jax/jit", "jax", OTHER_JAX),
        ("tensorflow", "", "tensorflow/xla", "tensorflow-cpu", "2."),
        # Its compiler calls the image's C++ compiler.
        ("torch", "", "torch/compile", "torch", locks.TORCH_CPU_VERSION),
    ],
)
def test_a_cpu_image_with_another_jax_or_framework_measures_with_it(
    engine: Engine, base_image: str, extras: str, jax: str, framework: str, distribution: str, version: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    if extras == "torch" and not wheel_fits(engine, base_image):
        pytest.skip("containers/wheels has no PyTorch for the base image's Python")
    told = build(Variant.of("cpu", extras, jax), engine, base_image)
    tmp_path.chmod(0o777)
    words = f"jitmatrix bench --matrix all --kernel double --framework {framework} --size S --dtype float32 --quick"
    options = (f"--volume={tmp_path}:/var/lib/jitmatrix",)
    done = ran(engine, str(told["image"]), *words.split(), options=options)
    assert "1 planned = 1 ok + 0 failed + 0 skipped" in done.stdout, done.stdout + done.stderr
    (file,) = tmp_path.glob("results/runs/*/*.parquet")
    (row,) = pq.ParquetFile(file).read().to_pylist()
    packages = json.loads(row["environment"])["packages"]
    assert row["image"] == told["image"]
    assert packages[distribution].startswith(version)
