"""What can be said of the images without building them: that their files agree, and what is refused in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from containers import engine, locks
from containers.engine import Engine
from containers.variant import FOLDER, LOCKS, Variant, version
from kernels.case import Backend
from kernels.errors import UsageError
from tests.containers.jobs import BENCHES

ROOT = Path(__file__).resolve().parents[2]

BACKENDS = [backend.value for backend in Backend]


def build(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "containers.build", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_backend_has_a_dockerfile_locks_and_a_deployment_and_nothing_else_has() -> None:
    assert sorted(LOCKS) == sorted(BACKENDS)
    assert sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.Dockerfile")) == sorted(BACKENDS)
    named = {name for variants in LOCKS.values() for chosen in variants.values() for name in chosen} | {"sbom"}
    assert {path.stem for path in FOLDER.glob("*.lock")} == named == set(locks.EXTRAS)
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    benches = {each["name"] for each in deployments if each["entrypoint"] == "flows.bench.bench"}
    assert benches == set(BACKENDS)


def test_every_lock_was_made_for_what_pyproject_names() -> None:
    locks.check(locks.EXTRAS)


@pytest.mark.parametrize("name", sorted(locks.EXTRAS))
def test_every_distribution_of_a_lock_has_a_version_and_hashes(name: str) -> None:
    entries = locks.read(FOLDER / f"{name}.lock")
    assert entries
    for text in entries.values():
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9, -]+\])?==\S+", text)
        assert "--hash=sha256:" in text


def test_a_lock_that_was_made_for_other_dependencies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FOLDER / "gpu.lock").read_text()
    (tmp_path / "gpu.lock").write_text(text.replace(locks.inputs("gpu"), "0" * 16))
    monkeypatch.setattr(locks, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match=r"gpu\.lock was made for other dependencies .*: run make lock"):
        locks.check(["gpu"])
    with pytest.raises(UsageError, match=r"tpu\.lock is missing: run make lock"):
        locks.check(["tpu"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dockerfile_passes_the_linter(backend: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, FOLDER / f"{backend}.Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dockerfile_pins_its_base_and_runs_as_nobody_of_importance(backend: str) -> None:
    text = (FOLDER / f"{backend}.Dockerfile").read_text()
    code = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert re.fullmatch(
        r"ARG BASE_IMAGE=docker\.io/library/python:3\.13[.0-9]*-slim-trixie@sha256:[0-9a-f]{64}", code[0]
    )
    assert [line for line in code if line.startswith("USER ")] == ["USER 10001:10001"]
    assert f"JITMATRIX_BACKEND={backend}" in text
    assert f'org.opencontainers.image.title="jitmatrix-{backend}"' in text
    assert f'ARG LOCKS="{backend}.lock"' in text
    assert any(line.startswith("HEALTHCHECK ") and "kernels.health" in line for line in code)


def instructions(backend: str) -> list[str]:
    """Give a Dockerfile's instructions, each in a line, with the backend's name taken out."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (FOLDER / f"{backend}.Dockerfile").read_text())
    return [line.replace(backend, "BACKEND") for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_what_is_mended_in_one_dockerfile_is_mended_in_all(backend: str) -> None:
    # Docker has no way to share stages between files; what is a backend's own are its settings and what it runs.
    own = ("ENV HOME=", "CMD ")
    kept = [[line for line in instructions(each) if not line.startswith(own)] for each in ("cpu", backend)]
    assert kept[0] == kept[1]
    assert len(kept[0]) > 30


def test_variants_have_their_locks_and_a_tag_that_says_what_is_not_as_usual() -> None:
    plain, other = Variant.of("cpu"), Variant.of("cpu", "torch,tensorflow", "0.11.0")
    assert (plain.locks, other.locks) == (("cpu",), ("cpu", "cpu-tensorflow", "cpu-torch"))
    assert other.tag == f"{plain.tag}-jax0.11.0-tensorflow-torch"
    assert Variant.of("gpu", "torch").locks == ("gpu-torch",)


def test_content_names_every_file_that_an_image_is_made_from(tmp_path: Path) -> None:
    lock = tmp_path / "cpu.lock"
    lock.write_text("one")
    first = Variant.of("cpu").content("base", [lock])
    assert re.fullmatch("[0-9a-f]{12}", first)
    assert Variant.of("cpu").content("base", [lock]) == first
    assert Variant.of("cpu").content("other", [lock]) != first
    assert Variant.of("gpu").content("base", [lock]) != first
    lock.write_text("two")
    assert Variant.of("cpu").content("base", [lock]) != first


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("cpux",), "jitmatrix: unknown backend 'cpux': choose from cpu, gpu, tpu; did you mean cpu?"),
        (("tpu", "--extras", "torch"), "jitmatrix: EXTRAS=torch: the tpu image takes none; leave it out"),
        (
            ("gpu", "--extras", "touch"),
            "jitmatrix: unknown extra 'touch' (EXTRAS of the gpu image): choose from torch; did you mean torch?",
        ),
        (("cpu", "--jax", "newest"), "jitmatrix: JAX=newest: give a version, such as JAX=0.11.0"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_line(arguments: tuple[str, ...], line: str) -> None:
    done = build(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{line}\n")


def test_a_machine_without_an_engine_is_told_so(tmp_path: Path) -> None:
    done = build("cpu", PATH=str(tmp_path))
    line = "jitmatrix: no engine for images here: none is on PATH; install docker, podman or buildah\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_an_engine_that_does_not_answer_is_named_with_what_it_said(tmp_path: Path) -> None:
    command = tmp_path / "docker"
    command.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    command.chmod(0o755)
    done = build("cpu", PATH=f"{tmp_path}")
    assert (
        "docker does not answer (Cannot connect to the Docker daemon); install docker, podman or buildah" in done.stderr
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.skipif(any(Path("/etc/cdi").glob("nvidia*")), reason="this machine's engine has a runtime for GPUs")
def test_a_gpu_that_the_engine_cannot_hand_over_is_told_with_what_mends_it(tmp_path: Path) -> None:
    for name in ("podman", "docker"):
        answers = tmp_path / name / name
        answers.parent.mkdir()
        # What `docker info` says of a machine without NVIDIA's container toolkit.
        answers.write_text("""#!/bin/sh\necho '{"runc": {"path": "runc"}}'\n""")
        answers.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "containers.run", "gpu", "jitmatrix", "bench"],
            cwd=ROOT, env={**os.environ, "PATH": str(answers.parent)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert (
            f"{name} has no runtime for GPUs here; install NVIDIA's container toolkit, and run nvidia-ctk"
            in done.stderr
        )


def test_an_image_that_is_not_there_is_told_with_the_line_that_builds_it(tmp_path: Path) -> None:
    engine = tmp_path / "podman"
    engine.write_text('#!/bin/sh\ncase "$1" in info) ;; *) exit 125 ;; esac\n')
    engine.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "containers.run", "--jax", "0.11.0", "cpu", "jitmatrix", "list"],
        cwd=ROOT, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    line = f"jitmatrix: there is no image jitmatrix-cpu:{version()}-jax0.11.0 here: make image BACKEND=cpu JAX=0.11.0\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_a_container_has_no_more_rights_than_its_device_asks_for() -> None:
    assert Engine("podman").device_options("cpu") == []
    # As prefect.yaml has it for docker work pools.
    tpu = BENCHES["tpu"]["work_pool"]["job_variables"]
    assert (tpu["privileged"], tpu["network_mode"], tpu["container_create_kwargs"]["user"]) == (True, "host", "root")
    assert Engine("docker").device_options("tpu") == ["--privileged", "--user=root", "--network=host"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("jitmatrix: the base image has no python3; name one", "the base image has no python3; name one"),
        (
            "ERROR: [Errno 28] No space left on device",
            "there is no space left where podman keeps images; podman system",
        ),
        ("Error: initializing source docker://x: pinging container registry", "the base image x cannot be had"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES: x do not match the hashes", "a lock does not fit"),
        ("something else", "something else"),
    ],
)
def test_a_failed_build_says_its_cause(said: str, line: str) -> None:
    found = engine.cause(["STEP 1/4: FROM x", said, ""], "podman", {"BASE_IMAGE": "x"})
    assert found.startswith(line)
