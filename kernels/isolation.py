"""A fresh process per assignment, a deadline, a memory limit: always yields an Outcome, never an exception."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from kernels import machine
from kernels.assignment import Assignment
from kernels.ending import ending
from kernels.guards import Finding, Flag
from kernels.link import NotStartedError, RefusedError, Server, ServerDiedError
from kernels.measurement import Outcome, Reading, Status
from kernels.phase import Phase
from kernels.variables import environment

GRACE_S = 0.5
"""Between the request to end (SIGTERM) and the end (SIGKILL) of a process that is past its deadline."""

LAST_REQUEST = 8
"""How often a process's end is asked for, until its fork server is taken to be stuck and is ended with it."""

PAUSES_S = (0.5, 2.0)
"""Before a process that could not be started is tried again: a machine that has no room now may have it then."""

OUTPUT_NBYTES = 2**20
"""How much of what a kernel printed is kept: the last of it."""


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
        self._servers: dict[str, Server] = {}
        self._hopeless: set[str] = set()
        self._stopped = threading.Event()

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
            # One that does not start is tried again when it is asked for a process.
            with contextlib.suppress(NotStartedError):
                self._server(framework)

    def run(self, assignment: Assignment) -> Outcome:
        """Run an assignment in a fresh process.

        Args:
            assignment: what to do.

        Returns:
            What the process left behind, however it ended.

        Raises:
            StoppedError: another thread called ``stop``.
        """
        start = time.monotonic_ns()
        outcome = self._started(assignment)
        outcome.wall_ns = time.monotonic_ns() - start
        return outcome

    def _started(self, assignment: Assignment) -> Outcome:
        """Run an assignment; where the machine could not start its process, which is no fault of the case, again."""
        framework = assignment.case.framework
        pauses = () if framework in self._hopeless else PAUSES_S
        outcome = Outcome(assignment.role)
        for tries, pause in enumerate((*pauses, None), 1):
            outcome = Outcome(assignment.role)
            try:
                self._once(assignment, outcome)
            except NotStartedError as error:
                outcome.reason = f"{error}; tried {tries} times" if tries > 1 else str(error)
                if pause is None:
                    self._hopeless.add(framework)
                elif self._stopped.wait(pause):
                    raise StoppedError from error
                continue
            self._hopeless.discard(framework)
            if tries > 1:
                outcome.facts["starts"] = tries
            break
        return outcome

    def _once(self, assignment: Assignment, outcome: Outcome) -> None:
        framework = assignment.case.framework
        if self._stopped.is_set():
            raise StoppedError
        try:
            server = self._server(framework)
            server.wait_ready()
            self._follow(server, assignment, outcome)
        except (NotStartedError, ServerDiedError) as error:
            if self._stopped.is_set():
                raise StoppedError from error
            if not isinstance(error, RefusedError):
                self._end(framework)
            if isinstance(error, NotStartedError):
                raise
            outcome.status, outcome.reason = Status.FAILED, str(error)
        except _StuckError:
            self._end(framework)
            _time_out(outcome, assignment.sampling.timeout_s, " with its fork server, which no longer answered")

    def _server(self, framework: str) -> Server:
        if framework not in self._servers:
            self._servers[framework] = Server(framework, self._variables)
        return self._servers[framework]

    def _end(self, framework: str) -> None:
        if framework in self._servers:
            self._servers.pop(framework).close()

    def stop(self) -> None:
        """End what is running, from another thread; ``run`` raises there, now and from then on."""
        self._stopped.set()
        for server in list(self._servers.values()):
            server.stop()

    def _follow(self, server: Server, assignment: Assignment, outcome: Outcome) -> None:
        records, send_records = os.pipe()
        output, send_output = os.pipe()
        streams = {records: bytearray(), output: bytearray()}
        try:
            try:
                limit = assignment.sampling.memory_mb * 2**20 or self._memory
                message = {"fork": assignment.to_json(), "memory_nbytes": limit, "cpus": self._cpus}
                pid, grouped = server.fork(message, (send_records, send_output))
            finally:
                os.close(send_records)
                os.close(send_output)
            timeout_s = assignment.sampling.timeout_s
            ended, late = self._watch(server, pid, streams, output, timeout_s)
        finally:
            # Whatever became of the process or its server: what was timed until then stands in the row.
            _drain(streams)
            os.close(records)
            os.close(output)
            legible = _take_all(bytes(streams[records]), outcome)
            outcome.output = bytes(streams[output][-OUTPUT_NBYTES:]).decode("utf-8", errors="replace").strip()
        outcome.peak_nbytes = ended["peak_nbytes"]
        outcome.facts["memory_limit"] = f"{limit} bytes by {'control group' if grouped else 'resource limit'}"
        _conclude(outcome, ended["exit"], late, timeout_s)
        if not legible and outcome.status is Status.OK:
            outcome.status, outcome.reason = Status.FAILED, "the kernel wrote into the harness's own pipe"
        if ended["memory_kills"]:
            outcome.status = Status.KILLED
            outcome.reason = f"out of memory: the limit of {limit / 2**20:.0f} MiB was reached, by a control group"

    def _watch(
        self, server: Server, pid: int, streams: Mapping[int, bytearray], output: int, timeout_s: float
    ) -> tuple[dict[str, int], bool]:
        """Read what the process sends until it has ended; end it when it is late."""
        deadline, late, open_streams = time.monotonic() + timeout_s, 0, set(streams)
        try:
            while (ended := server.ended(pid)) is None:
                wait = max(0.0, deadline - time.monotonic())
                readable, _, _ = select.select([*open_streams, server.link.fileno()], [], [], wait)
                for descriptor in open_streams & set(readable):
                    data = os.read(descriptor, 1 << 16)
                    if not data:
                        open_streams.discard(descriptor)
                    streams[descriptor].extend(data)
                    if descriptor == output:
                        del streams[descriptor][:-OUTPUT_NBYTES]
                if server.link.fileno() in readable:
                    server.receive()
                if not readable and time.monotonic() >= deadline:
                    server.signal(pid, signal.SIGTERM if late == 0 else signal.SIGKILL)
                    late += 1
                    deadline = time.monotonic() + GRACE_S
                    if late == LAST_REQUEST:
                        server.kill()
        except BaseException as error:
            # Ctrl-C or a cancelled flow: the process goes before the exception does.
            try:
                server.signal(pid, signal.SIGKILL)
            except ServerDiedError:
                # The process died with its server; what it had started in its group is for nobody else to end.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            if late >= LAST_REQUEST and isinstance(error, ServerDiedError):
                raise _StuckError from error
            raise
        return ended, late > 0


class StoppedError(Exception):
    """The run was stopped; what was under way has no outcome."""


class _StuckError(Exception):
    """A process was late, and its fork server did not end it."""


def _drain(streams: Mapping[int, bytearray]) -> None:
    """Read what is still in the pipes; a descendant may hold one open, and write on: nothing is waited for."""
    for descriptor, held in streams.items():
        os.set_blocking(descriptor, False)
        most = len(held) + OUTPUT_NBYTES
        with contextlib.suppress(BlockingIOError):
            while len(held) < most and (data := os.read(descriptor, 1 << 16)):
                held.extend(data)


def _take_all(records: bytes, outcome: Outcome) -> bool:
    """Take every record; gives whether all could be read, for a kernel can write into any descriptor."""
    legible = True
    for line in records.split(b"\n")[:-1]:
        try:
            _take(json.loads(line), outcome)
        except (ValueError, KeyError, TypeError):
            legible = False
    return legible


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
        _time_out(outcome, timeout_s)
    elif exit_code < 0:
        hint = ", the kernel of the system may have run out of memory" if -exit_code == signal.SIGKILL else ""
        outcome.status, outcome.reason = Status.KILLED, f"{ending(exit_code)}{hint}"
    elif exit_code != 0 or (outcome.reason is None and outcome.status is not Status.OK):
        outcome.status = Status.FAILED
        outcome.reason = f"{ending(exit_code)} before it was done"


def _time_out(outcome: Outcome, timeout_s: float, also: str = "") -> None:
    outcome.status, outcome.reason = Status.TIMEOUT, f"no end after {timeout_s:g} s; the process was ended{also}"
