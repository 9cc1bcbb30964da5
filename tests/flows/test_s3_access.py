"""How S3 is reached: a bucket's name in the host's, and credentials that the machine itself gives out."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flows.s3 import S3Root
from flows.storage import Put
from tests.flows.seaweed import ADMIN, DOMAIN, Bucket, SeaweedServer

pytestmark = pytest.mark.faults


def test_the_bucket_may_stand_in_the_name_of_the_host(
    bucket: Bucket, seaweed: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set[str]()
    resolve = socket.getaddrinfo

    def on_loopback(host: str, *arguments: Any, **named: Any) -> Any:
        asked.add(host)
        return resolve("127.0.0.1" if host.endswith(f".{DOMAIN}") else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", on_loopback)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{DOMAIN}:{seaweed.port}")
    monkeypatch.setenv("JITMATRIX_S3_ADDRESSING", "virtual")
    place = S3Root(bucket.name, "prefix")
    assert "conditional" in place.check()
    assert place.put("a b", b"content") is Put.SENT
    assert place.read("a b") == b"content"
    assert bucket.contents() == {"prefix/a b": b"content"}
    assert asked == {f"{bucket.name}.{DOMAIN}"}
    assert place.client.pyarrow_options()["force_virtual_addressing"]


@contextmanager
def instance_role(key: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Answer as a cloud machine's metadata service; gives its address, and the paths that it was asked for."""
    asked: list[str] = []
    now = datetime.now(UTC)
    given = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": key[0],
        "SecretAccessKey": key[1],
        "Token": "",
        "LastUpdated": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "Expiration": f"{now + timedelta(hours=6):%Y-%m-%dT%H:%M:%SZ}",
    }

    class Metadata(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("session-token")

        def do_GET(self) -> None:
            asked.append(self.path)
            self._answer("benchmarks" if self.path.endswith("/") else json.dumps(given))

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def test_credentials_may_be_those_of_the_machines_role(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name)
    with instance_role(ADMIN) as (address, asked):
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
        place = S3Root(bucket.name, "prefix")
        assert place.put("key", b"content") is Put.SENT
        assert place.client.pyarrow_options()["access_key"] == ADMIN[0]
    assert bucket.contents() == {"prefix/key": b"content"}
    assert asked[-1].endswith("/benchmarks")
