"""A real S3-compatible server for the tests: SeaweedFS from PyPI, on 127.0.0.1 alone, ended with the tests."""

from __future__ import annotations

import ctypes
import json
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ADMIN = ("ADMINKEY", "a-secret-of-the-admin")
READER = ("READERKEY", "a-secret-of-the-reader")
REGION = "eu-test-1"

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
            *(f"-{name}.port{kind}={next(ports)}" for name in _SERVERS[:3] for kind in ("", ".grpc")),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start it, and wait until it answers as an S3 server."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - a system call of one line, which takes no lock
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
        """Make a client of the administrator's."""
        return boto3.session.Session(*ADMIN, region_name=REGION).client(
            "s3",
            endpoint_url=self.endpoint,
            config=Config(retries={"total_max_attempts": 3}, connect_timeout=5, read_timeout=10),
        )


@dataclass(frozen=True)
class Bucket:
    """A bucket, seen by a client that has nothing of the product in it: what it sees is what is stored.

    Attributes:
        name: the bucket's name.
        client: boto3's client.
    """

    name: str
    client: Any

    @classmethod
    def new(cls, server: SeaweedServer) -> Bucket:
        name, client = f"bucket-{uuid.uuid4().hex}", server.client()
        client.create_bucket(Bucket=name)
        return cls(name, client)

    def contents(self) -> dict[str, bytes]:
        """Give everything that is stored, and see that a key is listed once."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        assert len(keys) == len(set(keys))
        return {key: self.client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def begun_uploads(self) -> list[str]:
        """Give the keys of multipart uploads that were neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ())
        return [each["Key"] for each in found]


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens on, below the range from which the kernel takes its own."""
    found: list[int] = []
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        found.append(each.getsockname()[1])
    for each in sockets:
        each.close()
    return found


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: tests that are killed leave no server
