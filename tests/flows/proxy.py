"""A proxy before a real server: it fails as networks and servers do, where a test says so."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """What happens to a request.

    Attributes:
        status: answered instead of the server, which never sees the request.
        code: the error's name in that answer.
        headers: of the answer.
        drop: the server does it, but its answer is lost and the connection closed.
        stall_s: the answer takes so long, or the client has gone by then.
        trickle_s: so long between the bytes of the answer.
    """

    status: int | None = None
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    stall_s: float = 0.0
    trickle_s: float = 0.0


Faults = Callable[[str, str], Fault | None]
"""Method and path with query to what happens; None lets the request through."""


class Proxy:
    """A proxy on a port of its own; ``faults`` may be set anew at any time.

    Attributes:
        faults: what happens to which request.
        refused: headers to the status and the error's name with which a request that has them is refused.
        blind: whether conditions are passed over: what the server refuses for one is answered as stored.
        date: the Date of every answer; None leaves the server's.
        requests: method and path of every request so far.
    """

    def __init__(self, upstream_port: int) -> None:
        self.faults: Faults = lambda _method, _path: None
        self.refused: dict[str, tuple[int, str]] = {}
        self.blind = False
        self.date: str | None = None
        self.requests: list[tuple[str, str]] = []
        self.upstream_port = upstream_port
        self.closed = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def speak_tls(self, certificate: Path) -> None:
        """Answer with TLS alone; the certificate's file holds its key too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[Proxy]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.closed.set()
            self.server.shutdown()
            self.server.server_close()
            thread.join()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _serve(self) -> None:
            body = self._body()
            proxy.requests.append((self.command, self.path))
            refused = next((Fault(*proxy.refused[name]) for name in proxy.refused if name in self.headers), None)
            fault = refused or proxy.faults(self.command, self.path) or Fault()
            if fault.status is not None:
                text = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>injected</Message></Error>"
                content = text.encode() if self.command != "HEAD" else b""
                self._answer(fault.status, fault.headers, content)
                return
            proxy.closed.wait(fault.stall_s)
            upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream_port, timeout=30)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
                upstream.request(self.command, self.path, body, headers)
                found = upstream.getresponse()
                content = found.read()
            except OSError:
                self.close_connection = True  # the server is down; so is what the client sees
                return
            finally:
                upstream.close()
            if fault.drop:
                self.close_connection = True
                return
            if found.status == 412 and proxy.blind:
                self._answer(200, {"ETag": '"0"'}, b"")
                return
            kept = {k: v for k, v in found.getheaders() if k.lower() not in {"transfer-encoding", "connection"}}
            if proxy.date is not None:
                kept = {k: v for k, v in kept.items() if k.lower() != "date"} | {"Date": proxy.date}
            self._answer(found.status, kept, content, fault.trickle_s)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            del self.headers["Transfer-Encoding"]
            return b"".join(chunks)

        def _answer(self, status: int, headers: dict[str, str], content: bytes, trickle_s: float = 0.0) -> None:
            self.send_response_only(status)
            names = {name.lower() for name in headers}
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-length" not in names:
                self.send_header("Content-Length", str(len(content)))
            with contextlib.suppress(OSError):
                self.end_headers()
                for byte in (content[i : i + 1] for i in range(len(content))) if trickle_s else (content,):
                    self.wfile.write(byte)
                    time.sleep(trickle_s)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
