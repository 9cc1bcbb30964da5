"""What the tests of flows share: a Prefect server and an S3 server of their own, and runs of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows.proxy import Proxy
from tests.flows.seaweed import ADMIN, REGION, Bucket, SeaweedServer

ROOT = Path(__file__).resolve().parents[2]

PREFECT = (sys.executable, "-m", "prefect")

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what Prefect stores out of the user's home."""
    home = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home))
        patch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        patch.delenv("PREFECT_API_URL", raising=False)
        yield home


@pytest.fixture
def jitmatrix(tmp_path: Path) -> Command:
    """Run the command in an empty folder."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.cli", *arguments]
        # No cloud is asked who this machine is.
        own = {"PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}
        environment = {**os.environ, **own, **variables}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    return run


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    """Start the S3-compatible server once."""
    server = SeaweedServer(tmp_path_factory.mktemp("seaweed"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def bucket(seaweed: SeaweedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Make a bucket, and set the environment with which boto3 finds it; what the user has set is out of reach."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "JITMATRIX_"))]:
        if name != "JITMATRIX_LOCKS":
            monkeypatch.delenv(name)
    variables = {
        "AWS_ACCESS_KEY_ID": ADMIN[0],
        "AWS_SECRET_ACCESS_KEY": ADMIN[1],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": seaweed.endpoint,
        "AWS_CONFIG_FILE": str(tmp_path / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "JITMATRIX_SPOOL": str(tmp_path / "spool"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    made = Bucket.new(seaweed)
    yield made
    made.remove()


@pytest.fixture
def proxy(bucket: Bucket, seaweed: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Put a proxy that fails where a test says so between the product and the server."""
    with Proxy(seaweed.port).running() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running
