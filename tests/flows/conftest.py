"""What the tests of flows share: a Prefect server and an S3 server of their own, and runs of the command."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.server import Server
from tests.flows.proxy import Proxy
from tests.flows.seaweed import ADMIN, REGION, Bucket, SeaweedServer

ROOT = Path(__file__).resolve().parents[2]

PREFECT = (sys.executable, "-m", "prefect")

Command = Callable[..., subprocess.CompletedProcess[str]]


@functools.cache
def empty_database() -> Path:
    """Make a database that a server begins with, once: its migrations take longer than most tests.

    Returns:
        The file; it is gone with this process.
    """
    folder = Path(tempfile.mkdtemp(prefix="prefect-database-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [*PREFECT, "server", "database", "upgrade", "--yes"]
    environment = {**os.environ, "PREFECT_HOME": str(folder)}
    subprocess.run(command, env=environment, capture_output=True, timeout=300, check=True)
    return folder / "prefect.db"


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


@pytest.fixture(scope="session")
def own_server(prefect_home: Path) -> Iterator[str]:
    """Start the server that a run has where the user has none, once for all runs; gives its address."""
    if not (prefect_home / "prefect.db").exists():
        shutil.copy(empty_database(), prefect_home)
    server = Server()
    server.wait()
    yield server.url
    server.stop()


@contextlib.contextmanager
def using(address: str) -> Iterator[None]:
    """Let runs in this process and in others use one server: each start of one takes seconds."""
    with pytest.MonkeyPatch.context() as patch, temporary_settings({PREFECT_API_URL: address}):
        patch.setenv("PREFECT_API_URL", address)
        yield


@pytest.fixture
def shared_server(own_server: str) -> Iterator[None]:
    """Let the runs of a test use the server that is shared."""
    with using(own_server):
        yield


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
