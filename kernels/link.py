"""A fork server as its parent sees it: the link to it, its start and its end."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from kernels import memory
from kernels.interpreter import OWN_PATH

START_S = 120.0
"""Deadline of a fork server's imports, and of its answer to a request, on a machine that is busy."""


class ServerDiedError(Exception):
    """The fork server is gone; its message says what it printed last."""


class NotStartedError(Exception):
    """No process was started, for a reason that is none of the case's: to try again may help."""


class RefusedError(NotStartedError):
    """The fork server is there, and the system had no room for another process."""


class Server:
    """One fork server; one process of it at a time is followed."""

    def __init__(self, framework: str, variables: Mapping[str, str]) -> None:
        """Start it, without waiting for its imports.

        Args:
            framework: the adapter whose modules it imports.
            variables: its environment.

        Raises:
            NotStartedError: the system starts no process now.
        """
        self._framework = framework
        self.link, theirs = socket.socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._buffer, self._ready = b"", False
        self._inbox: list[dict[str, Any]] = []
        self._groups: str | None = None
        command = [sys.executable, OWN_PATH, "-m", "kernels.forkserver", framework, str(theirs.fileno())]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    env=dict(variables),
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                self.link.close()
                self._log.close()
                raise NotStartedError(f"the fork server of {framework} does not start: {error}") from error

    def wait_ready(self) -> None:
        """Wait until its imports are done.

        Raises:
            NotStartedError: it ended, or took too long.
        """
        deadline = time.monotonic() + START_S
        while not self._ready:
            self._receive_until(deadline, "was not ready")
            if ready := self._taken("ready"):
                self._ready, self._groups = True, ready["groups"]

    def fork(self, message: Mapping[str, Any], descriptors: tuple[int, int]) -> tuple[int, bool]:
        """Ask for a process.

        Args:
            message: what it is to do.
            descriptors: its record pipe and its output pipe.

        Returns:
            Its id, and whether a memory group limits it.

        Raises:
            NotStartedError: the system starts no process now; or the server ended, or did not answer in time.
        """
        try:
            with self._alive():
                socket.send_fds(self.link, [json.dumps(message).encode() + b"\n"], descriptors)
        except ServerDiedError as error:
            raise NotStartedError(str(error)) from error
        deadline = time.monotonic() + START_S
        while not (answer := self._taken("grouped")):
            if refused := self._taken("refused"):
                raise RefusedError(f"the fork server of {self._framework} cannot fork: {refused['refused']}")
            self._receive_until(deadline, "did not start a process")
        return int(answer["pid"]), bool(answer["grouped"])

    def ended(self, pid: int) -> dict[str, int] | None:
        """Give what was received of the end of a process; it may have come together with the word of its start.

        Args:
            pid: the process; the end of one that was given up earlier is passed over.

        Returns:
            The message; None where none has been received.
        """
        while message := self._taken("exit"):
            if message["pid"] == pid:
                return message
        return None

    def signal(self, pid: int, number: int) -> None:
        """Have a signal sent to the group of a process.

        Args:
            pid: the process.
            number: the signal.
        """
        with self._alive():
            self.link.sendall(json.dumps({"signal": int(number), "pid": pid}).encode() + b"\n")

    def receive(self) -> None:
        """Read at least one message, however long it takes.

        Raises:
            ServerDiedError: the server ended.
        """
        while b"\n" not in self._buffer:
            with self._alive():
                data = self.link.recv(1 << 16)
            if not data:
                raise ServerDiedError(self._last_words())
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        self._inbox += [json.loads(line) for line in lines]

    def _receive_until(self, deadline: float, missed: str) -> None:
        readable, _, _ = select.select([self.link], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise NotStartedError(f"the fork server of {self._framework} {missed} within {START_S:g} s")
        try:
            self.receive()
        except ServerDiedError as error:
            raise NotStartedError(str(error)) from error

    def _taken(self, key: str) -> dict[str, Any] | None:
        """Take the first message with a key out of the inbox."""
        found = next((message for message in self._inbox if key in message), None)
        if found is not None:
            self._inbox.remove(found)
        return found

    def stop(self) -> None:
        """Shut the link, for a thread that reads from it too; a server that is still importing has nothing to end."""
        if not self._ready:
            self._process.kill()
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End the server itself, when it no longer answers; whoever reads from the link learns of it."""
        self._process.kill()

    def close(self) -> None:
        """Close the link: the server ends what it forked, then itself."""
        self.link.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._groups:
            # Only a server that was killed leaves any.
            memory.clear_of(Path(self._groups), self._process.pid)
        self._log.close()

    @contextlib.contextmanager
    def _alive(self) -> Any:
        try:
            yield
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ServerDiedError(self._last_words()) from error

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it printed nothing"
        return f"the fork server of {self._framework} ended (status {self._process.returncode}): {last}"
