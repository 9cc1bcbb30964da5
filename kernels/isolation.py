"""A fresh process per assignment, a deadline, a memory limit: always yields an Outcome, never an exception."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any

from kernels import machine
from kernels.assignment import Assignment
from kernels.guards import Finding, Flag
from kernels.measurement import Outcome, Reading, Status
from kernels.phase import Phase

GRACE_S = 0.5
"""Between the request to end (SIGTERM) and the end (SIGKILL) of a process that is past its deadline."""

TAIL_NBYTES = 4096
"""How much of what a kernel printed stands in its row."""

START_S = 120.0
"""Deadline of a fork server's imports, on a machine that is busy."""

DROPPED = ("JAX_", "NUMBA_", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE")
"""Prefixes of variables that would change what is compiled, cached or computed behind the case's back."""


def environment(threads: int) -> dict[str, str]:
    """Compose the environment in which cases run, before their process starts.

    Args:
        threads: threads that a framework may use.

    Returns:
        The user's environment without what would falsify a timing, and with thread counts set.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    counts = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    kept |= {f"{library}_NUM_THREADS": str(threads) for library in counts}
    if threads == 1:
        # XLA has no thread count of its own on the CPU: it takes the affinity, and Eigen asks for this.
        kept["XLA_FLAGS"] = f"{kept.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return kept | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Isolation:
    """Fork servers of this process, one per framework, and the processes that they fork.

    Not for use by two threads at once: each worker has an Isolation of its own.
    """

    def __init__(self, cpus: Sequence[int] = (), memory_nbytes: int | None = None) -> None:
        """Prepare; nothing is started yet.

        Args:
            cpus: processors to pin every process to; empty leaves them where they are.
            memory_nbytes: memory limit of a process; None takes four fifths of what is free now.
        """
        self._cpus = list(cpus)
        self._memory = memory_nbytes if memory_nbytes else machine.memory_available() * 4 // 5
        self._variables = environment(len(cpus) or len(machine.affinity()))
        self._servers: dict[str, _Server] = {}

    def __enter__(self) -> Isolation:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every server and whatever it forked."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def prepare(self, frameworks: Sequence[str]) -> None:
        """Start the fork servers of frameworks without waiting for their imports.

        Args:
            frameworks: names of adapters.
        """
        for framework in frameworks:
            if framework not in self._servers:
                self._servers[framework] = _Server(framework, self._variables)

    def run(self, assignment: Assignment) -> Outcome:
        """Run an assignment in a fresh process.

        Args:
            assignment: what to do.

        Returns:
            What the process left behind, however it ended.
        """
        start = time.monotonic_ns()
        framework = assignment.case.framework
        self.prepare([framework])
        outcome = Outcome(assignment.role)
        server = self._servers[framework]
        try:
            server.wait_ready()
            self._follow(server, assignment, outcome)
        except _ServerDiedError as error:
            self._servers.pop(framework).close()
            outcome.status, outcome.reason = Status.FAILED, str(error)
        outcome.wall_ns = time.monotonic_ns() - start
        return outcome

    def _follow(self, server: _Server, assignment: Assignment, outcome: Outcome) -> None:
        records, send_records = os.pipe()
        output, send_output = os.pipe()
        streams = {records: bytearray(), output: bytearray()}
        try:
            try:
                memory = assignment.sampling.memory_mb * 2**20 or self._memory
                message = {"fork": assignment.to_json(), "memory_nbytes": memory, "cpus": self._cpus}
                pid = server.fork(message, (send_records, send_output))
            finally:
                os.close(send_records)
                os.close(send_output)
            timeout_s = assignment.sampling.timeout_s
            ended, late = self._watch(server, pid, streams, output, timeout_s)
        finally:
            os.close(records)
            os.close(output)
        for line in bytes(streams[records]).split(b"\n")[:-1]:
            _take(json.loads(line), outcome)
        tail = bytes(streams[output][-TAIL_NBYTES:]).decode("utf-8", errors="replace").strip()
        outcome.output_tail = tail or None
        outcome.peak_nbytes = ended["peak_nbytes"]
        _conclude(outcome, ended["exit"], late, timeout_s)

    def _watch(
        self, server: _Server, pid: int, streams: Mapping[int, bytearray], output: int, timeout_s: float
    ) -> tuple[dict[str, int], bool]:
        """Read what the process sends until it has ended; end it when it is late."""
        deadline, late, open_streams = time.monotonic() + timeout_s, 0, set(streams)
        try:
            while True:
                wait = max(0.0, deadline - time.monotonic())
                readable, _, _ = select.select([*open_streams, server.link.fileno()], [], [], wait)
                for descriptor in open_streams & set(readable):
                    data = os.read(descriptor, 1 << 16)
                    if not data:
                        open_streams.discard(descriptor)
                    streams[descriptor].extend(data)
                    if descriptor == output:
                        del streams[descriptor][:-TAIL_NBYTES]
                if server.link.fileno() in readable:
                    for message in server.receive():
                        if message.get("pid") == pid and "exit" in message:
                            _drain(open_streams, streams)
                            return message, late > 0
                if not readable and time.monotonic() >= deadline:
                    server.signal(pid, signal.SIGTERM if late == 0 else signal.SIGKILL)
                    late += 1
                    deadline = time.monotonic() + GRACE_S
        except BaseException:
            # Ctrl-C or a cancelled flow: the process goes before the exception does.
            with contextlib.suppress(_ServerDiedError):
                server.signal(pid, signal.SIGKILL)
            raise


class _ServerDiedError(Exception):
    """The fork server is gone; its message says what it printed last."""


class _Server:
    """One fork server, seen from its parent."""

    def __init__(self, framework: str, variables: Mapping[str, str]) -> None:
        self._framework = framework
        self.link, theirs = socket.socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._buffer, self._ready = b"", False
        command = [sys.executable, "-m", "kernels.forkserver", framework, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._ready:
            readable, _, _ = select.select([self.link], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise _ServerDiedError(f"the fork server of {self._framework} was not ready after {START_S:.0f} s")
            self._ready = any("ready" in message for message in self.receive())

    def fork(self, message: Mapping[str, Any], descriptors: tuple[int, int]) -> int:
        """Ask for a process; gives its id."""
        with self._alive():
            socket.send_fds(self.link, [json.dumps(message).encode() + b"\n"], descriptors)
        while True:
            for answer in self.receive():
                if "exit" not in answer:
                    return int(answer["pid"])

    def signal(self, pid: int, number: int) -> None:
        with self._alive():
            self.link.sendall(json.dumps({"signal": int(number), "pid": pid}).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]]:
        """Read at least one message, however long it takes."""
        while b"\n" not in self._buffer:
            with self._alive():
                data = self.link.recv(1 << 16)
            if not data:
                raise _ServerDiedError(self._last_words())
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the link: the server ends what it forked, then itself."""
        self.link.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @contextlib.contextmanager
    def _alive(self) -> Any:
        try:
            yield
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _ServerDiedError(self._last_words()) from error

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it printed nothing"
        return f"the fork server of {self._framework} ended (status {self._process.returncode}): {last}"


def _drain(open_streams: set[int], streams: Mapping[int, bytearray]) -> None:
    """Read what is still in the pipes; a descendant may hold one open, so nothing is waited for."""
    for descriptor in open_streams:
        os.set_blocking(descriptor, False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(descriptor, 1 << 16):
                streams[descriptor].extend(data)


def _take(record: Mapping[str, Any], outcome: Outcome) -> None:
    match record["kind"]:
        case "reading":
            outcome.readings.append(Reading.from_record(record))
        case "facts":
            outcome.facts.update(record["facts"])
        case "flag":
            phases = tuple(Phase(phase) for phase in record["phases"])
            outcome.findings.append(Finding(Flag(record["flag"]), record["reason"], phases))
        case "text":
            outcome.text = record["text"]
        case "end":
            outcome.status, outcome.reason = Status(record["status"]), record["reason"]


def _conclude(outcome: Outcome, exit_code: int, late: bool, timeout_s: float) -> None:
    """Say how the process ended, where it could not say so itself."""
    if late:
        outcome.status = Status.TIMEOUT
        outcome.reason = f"no end after {timeout_s:g} s; the process was ended"
    elif exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = ", the kernel of the system may have run out of memory" if name == "SIGKILL" else ""
        outcome.status, outcome.reason = Status.KILLED, f"the process died by {name}{hint}"
    elif exit_code != 0 or (outcome.reason is None and outcome.status is not Status.OK):
        outcome.status = Status.FAILED
        outcome.reason = f"the process exited with status {exit_code} before it was done"
