"""Processes that are killed at a step of what they do: SIGKILL, as the kernel or a scheduler does it.

A step is what another process or another machine can see: a file opened, renamed or removed, a request sent in part or
whole, a reply received. The process has no hook for it: Python's own audit events tell, and two functions are wrapped.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flows import compaction, s3
from flows.durable import publish
from flows.probe import Honours
from flows.s3 import S3Root
from flows.s3_client import Client
from flows.spool import spool
from flows.storage import LocalRoot
from flows.upload import upload

HONOURS = Honours(True, True, True, True, True, 0.0)
"""What the probe finds of the server here."""

PART_NBYTES = 5 << 20
"""Parts that are as small as S3 allows."""

_EVENTS = {"os.rename", "os.link", "os.remove", "os.rmdir", "fcntl.flock"}
_HEAD = (b"PUT ", b"POST ", b"HEAD ", b"GET ", b"DELETE ")
_CHUNKS = (1, 200)  # of a body: the first, and one in the middle of a part
_CHANGES = (b"PUT ", b"POST ", b"DELETE ")
_STARTER = "import sys; from tests.flows.killed import serve; serve(sys.argv[1])"
_ROOT = Path(__file__).resolve().parents[2]


def kills(action: str) -> Iterator[Callable[[dict[str, Any]], bool]]:
    """Yield a call per step, which runs the action in a process that is killed there; the last one ends by itself.

    Args:
        action: name of a function of this module that does the work: upload_all, write_file or compact_all.

    Yields:
        Takes the function's parameters; tells whether the process was killed.
    """
    command = [sys.executable, "-c", _STARTER, action]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        step, ended = 0, False

        def run(parameters: dict[str, Any]) -> bool:
            nonlocal ended
            print(json.dumps({"step": step, "parameters": parameters}), file=server.stdin, flush=True)
            status = int(server.stdout.readline())  # type: ignore[union-attr]
            assert status in {0, -signal.SIGKILL}
            ended = status == 0
            return not ended

        while not ended:
            step += 1
            yield run
        server.stdin.close()


def serve(action: str) -> None:
    """Fork a process for each line of standard input: what is imported here costs it nothing."""
    client: Client | None = None
    for line in sys.stdin:
        order = json.loads(line)
        parameters = order["parameters"]
        if "bucket" in parameters and client is None:
            # Made once, without a connection: boto3 takes longer for it than for the upload.
            client = S3Root(parameters["bucket"], "").client
            client._opened()
        child = os.fork()
        if child == 0:
            if action == "compact_all":
                # What it reads, and its temporary files, nobody else can see.
                place = parameters.get("folder", "\0")
                _arm(order["step"], _CHANGES, changed=place, made=place)
                compact_all(client, **parameters)
            elif client is not None:
                _arm(order["step"])
                upload_all(client, **parameters)
            else:
                _arm(order["step"])
                write_file(**parameters)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def upload_all(client: Client, bucket: str, prefix: str) -> None:
    """Upload a spool; the probe, which is no part of the protocol, is taken as done."""
    s3.PART_NBYTES = PART_NBYTES
    target = probed(bucket, prefix, client)
    assert upload(spool(target), target, threads=2).complete


def probed(bucket: str, prefix: str, client: Client) -> S3Root:
    """Make a root whose client and whose probe are those of another."""
    target = S3Root(bucket, prefix)
    vars(target).update(client=client, honours=HONOURS)
    return target


def compact_all(client: Client | None, bucket: str = "", prefix: str = "", folder: str = "") -> None:
    """Compact a root, and remove at once what was replaced."""
    target = LocalRoot(Path(folder)) if client is None else probed(bucket, prefix, client)
    seen = compaction.survey(target)
    for day in seen.days:
        assert not compaction.compact_day(target, day, seen, keep_raw_days=0).problems


def write_file(path: str, content: str) -> None:
    """Publish a file."""
    publish(Path(path), content.encode())


def _arm(step: int, heads: tuple[bytes, ...] = _HEAD, changed: str = "", made: str = "/spool") -> None:
    """Count steps: requests that begin so, files changed and files made whose paths contain this."""
    count, lock = itertools.count(1), threading.Lock()

    def passed() -> None:
        with lock:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sent = threading.local()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "http.client.send":
            begins = arguments[1].startswith(_HEAD)
            sent.chunks = 0 if begins else sent.chunks + 1
            sent.counts = arguments[1].startswith(heads) if begins else sent.counts
            if sent.counts and (begins or sent.chunks in _CHUNKS):
                passed()
        elif (event in _EVENTS and changed in str(arguments[0])) or (
            event == "open" and made in str(arguments[0]) and "x" in str(arguments[1])
        ):
            passed()

    def around(owner: Any, name: str, counts: Callable[[], bool]) -> None:
        function = getattr(owner, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            if counts():
                passed()
            return result

        setattr(owner, name, wrapped)

    sys.addaudithook(audit)
    around(http.client.HTTPResponse, "begin", lambda: sent.counts)
    around(os, "fsync", lambda: True)
