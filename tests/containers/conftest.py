"""What the tests of images share: an engine that runs them, and a base to build them on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import base
from containers.build import build
from containers.engine import Engine
from containers.variant import Variant


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Find the engine, set up for a machine without systemd where this is one."""
    with pytest.MonkeyPatch.context() as patch:
        if "CONTAINERS_CONF" not in os.environ and not Path("/run/systemd/system").is_dir():
            patch.setenv("CONTAINERS_CONF", str(Path(__file__).with_name("containers.conf")))
        yield Engine.here(runs=True)


@pytest.fixture(scope="module")
def base_image(engine: Engine) -> str:
    """Give the base: from Debian packages, unless JITMATRIX_BASE_IMAGE names another."""
    given = os.environ.get("JITMATRIX_BASE_IMAGE")
    if not given:
        base.make(engine)
    return given or base.NAME


@pytest.fixture(scope="module")
def image(engine: Engine, base_image: str) -> str:
    """Build the cpu image of this checkout."""
    return str(build(Variant.of("cpu"), engine, base_image)["newest"])


@pytest.fixture
def socket(engine: Engine, tmp_path: Path) -> Iterator[str]:
    """Give the address of the engine's API."""
    if engine.name == "docker":
        yield os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        return
    path = tmp_path / "podman.sock"
    with (tmp_path / "podman.log").open("wb") as log:
        service = subprocess.Popen(
            [engine.name, "system", "service", "--time=0", f"unix://{path}"], stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield f"unix://{path}"
    finally:
        os.killpg(service.pid, signal.SIGTERM)
        service.wait(30)
