"""What the tests of images share: an engine that runs them, and a base to build them on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import base
from containers.engine import Engine


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
