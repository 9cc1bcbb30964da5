"""A real S3-compatible server: SeaweedFS from PyPI, on 127.0.0.1 alone, ended with the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ADMIN = ("ADMINKEY", "a-secret-of-the-admin")
READER = ("READERKEY", "a-secret-of-the-reader")
REGION = "eu-test-1"
DOMAIN = "s3.test"
"""Below it, a bucket's name may stand in the host's; no name service knows it."""

_SERVERS = ("master", "filer", "volume", "s3")
_IDENTITIES = {
    "identities": [
        {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}
        for name, (key, secret), actions in (("admin", ADMIN, ["Admin"]), ("reader", READER, ["Read", "List"]))
    ]
}


class SeaweedServer:
    """One server with a folder and ports of its own; it keeps both when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        """Prepare it; nothing is started yet.

        Args:
            folder: an empty one, for its data, its log and its users.
        """
        self.folder = folder
        ports = iter(free_ports(2 * len(_SERVERS) + 1))
        self.port = next(ports)
        config = folder / "identities.json"
        config.write_text(json.dumps(_IDENTITIES))
        data = folder / "data"
        data.mkdir()
        self._command = [
            str(Path(sys.executable).with_name("weed")),
            "mini",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-webdav=false",
            "-admin.ui=false",
            f"-s3.config={config}",
            f"-s3.port={self.port}",
            f"-s3.port.grpc={next(ports)}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-s3.autoCreateBucket=false",
            f"-s3.domainName={DOMAIN}",
            *(f"-{name}.port{kind}={next(ports)}" for name in _SERVERS[:3] for kind in ("", ".grpc")),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start it, and wait until it answers as an S3 server.

        Args:
            timeout_s: seconds until it has to.

        Raises:
            RuntimeError: it ended, or did not answer in time; the end of its log says why.
        """
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - a system call of one line, which takes no lock
            )
        end = time.monotonic() + timeout_s
        while True:
            try:
                self.client().list_buckets()
                return
            except Exception:
                if time.monotonic() > end or self._process.poll() is not None:
                    self.kill()
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def client(self) -> Any:
        """Make a client of the administrator's.

        Returns:
            boto3's, with a pool of as many connections as it has by default.
        """
        return boto3.session.Session(*ADMIN, region_name=REGION).client(
            "s3",
            endpoint_url=self.endpoint,
            config=Config(retries={"total_max_attempts": 3}, connect_timeout=5, read_timeout=10),
        )


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens on.

    Args:
        count: how many.

    Returns:
        The ports.
    """
    found: list[int] = []
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        found.append(each.getsockname()[1])
    for each in sockets:
        each.close()
    return found


@contextlib.contextmanager
def configured(server: SeaweedServer, folder: Path) -> Iterator[None]:
    """Let boto3 find a server, and results wait in a folder; what the user has set is out of reach meanwhile.

    Args:
        server: the server, started.
        folder: for the spool; no AWS file of the user's is read.

    Yields:
        Nothing.
    """
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("AWS_", "JITMATRIX_"))]:
        del os.environ[name]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": ADMIN[0],
        "AWS_SECRET_ACCESS_KEY": ADMIN[1],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_CONFIG_FILE": str(folder / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "JITMATRIX_SPOOL": str(folder / "spool"),
    }
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def die_with_parent() -> None:
    """Let the process that calls it be killed when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: whoever is killed leaves no server
