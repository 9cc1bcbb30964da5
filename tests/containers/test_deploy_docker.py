"""docs/deploy.md: the way of docker runs as it is written; ``make test-containers`` runs this."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from containers.engine import Engine
from tests.flows.seaweed import free_ports
from tests.flows.test_deploy_page import PAGE, commands_of, written

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif("JITMATRIX_CONTAINERS" not in os.environ, reason="run by make test-containers"),
]

VOLUME = "jitmatrix"
"""Where prefect.yaml keeps what containers write."""


@pytest.fixture
def volume(engine: Engine) -> str:
    """A volume of the name that nobody has yet."""
    found = subprocess.run([engine.name, "volume", "inspect", VOLUME], capture_output=True, check=False)
    if found.returncode == 0:
        pytest.skip(f"{engine.name} has a volume {VOLUME} already: its results are somebody's")
    return VOLUME


def test_docker_from_an_image_to_a_run(image: str, engine: Engine, socket: str, volume: str, tmp_path: Path) -> None:
    section = PAGE[PAGE.index("## (b) Docker") : PAGE.index("## (c)")]
    (block,) = commands_of(section)
    building, installing, *others = block.splitlines(keepends=True)
    # The image is built by a fixture, and the package is installed with the tests' own.
    assert (building, installing) == ("make image\n", ".venv/bin/python -m pip install prefect-docker\n")
    (port,) = free_ports(1)
    commands = "".join(others).replace(":4200", f":{port}")
    assert image in commands
    assert "--param matrix=smoke --watch" in commands
    # The smoke matrix takes minutes: a part of it does here.
    few = "--param matrix=smoke --param 'kernel=[\"double\"]' --param 'framework=[\"numpy\"]' --watch"
    done = written(
        commands.replace("--param matrix=smoke --watch", few),
        tmp_path, port, {"DOCKER_HOST": socket, "JITMATRIX_HOME": ""},
    )  # fmt: skip
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Completed" in done.stdout + done.stderr
        look = "find /var/lib/jitmatrix -name '*.parquet'"
        inside = [engine.name, "run", "--rm", "--network=none", f"--volume={volume}:/var/lib/jitmatrix", image]
        kept = subprocess.run([*inside, "sh", "-c", look], capture_output=True, text=True, timeout=120, check=True)
        assert sorted(re.findall(r"results/(\w+)/date=", kept.stdout)) == ["runs", "timings"]
    finally:
        subprocess.run([engine.name, "volume", "rm", "--force", volume], capture_output=True, check=False)


def test_the_image_of_the_page_is_that_of_this_version(image: str) -> None:
    assert f"JITMATRIX_IMAGE_CPU={image} " in PAGE
