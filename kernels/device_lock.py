"""One device, one benchmark: a lock of this machine for each device, held by whoever measures there.

A lock is a file that its holder keeps locked (``flock``) and writes its name into. The system frees it when the holder
ends, however it ends. Whoever measures on an accelerator shares the processors' lock besides: compilation and dispatch
run there, and a benchmark of the processors would take their time, and its own be taken.

The folder is the same for every user of a machine: ``JITMATRIX_LOCKS``, else one in ``/run/lock`` where all may write
there, else one in ``/tmp``. Containers have folders of their own: mount the machine's into them.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kernels.case import Backend
from kernels.clocks import SMI_S
from kernels.errors import UnavailableError, UsageError
from kernels.lock_file import folder, is_held, locked, opened, same, where

WAIT = "JITMATRIX_DEVICE_WAIT_S"
"""Variable with the seconds that a held device is waited for."""

WAIT_S = 4 * 3600.0
"""Where the variable is not set: longer than a nightly run of one backend takes, shorter than the night."""

POLL_S = 0.5
"""Between two tries: the holder is measuring, and is not to be disturbed."""

_NAME_LENGTH = 300


class HeldError(UnavailableError):
    """Another run holds the device, and did for as long as this one waited; the message names it."""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user has no name there.
        return str(os.getuid())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device.

    Attributes:
        what: the run and its command, in words.
        user: the account.
        pid: the process, as its own machine or container numbers it.
        host: the machine or container.
        since: when it took the device.
    """

    what: str
    user: str = field(default_factory=_user)
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=platform.node)
    since: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")

    def __str__(self) -> str:
        """Name the holder in one line."""
        return f"{self.what}, process {self.pid} of {self.user} on {self.host}, since {self.since}"


class Claim:
    """What a run takes its devices with.

    Attributes:
        what: the run and its command, in words.
        say: is told that a device is waited for.
        wait_s: seconds that a held device is waited for.
    """

    def __init__(self, what: str, say: Callable[[str], None], wait_s: float | None = None) -> None:
        """Prepare; nothing is taken yet, but the folder of locks is made.

        Args:
            what: the run and its command, in words: those who wait for it read that.
            say: is told, once for each device, that it is waited for and who holds it.
            wait_s: seconds that a held device is waited for; None takes ``JITMATRIX_DEVICE_WAIT_S``, else four hours.

        Raises:
            UsageError: the variable holds no number of seconds, or the folder cannot be made.
        """
        self.what, self.say = what, say
        self.wait_s = patience_s() if wait_s is None else wait_s
        folder()

    @contextlib.contextmanager
    def held(self, backend: Backend) -> Iterator[None]:
        """Hold the device of a backend for the block.

        Args:
            backend: whose; its first visible device is the one that cases use.

        Yields:
            Nothing.

        Raises:
            HeldError: another run held it for as long as this one waited.
            UsageError: a lock cannot be used.
        """
        end = time.monotonic() + self.wait_s
        with contextlib.ExitStack() as stack:
            self.take(device(backend), end, stack)
            if backend is not Backend.CPU:
                self._lock(Backend.CPU.value, fcntl.LOCK_SH, end, stack)
            yield

    def take(self, name: str, end: float, stack: contextlib.ExitStack) -> None:
        """Take a device; who must ask somewhere else too does so here.

        Args:
            name: as ``device`` gives it.
            end: until when it is waited for, in seconds of the monotonic clock.
            stack: gives the device back.

        Raises:
            HeldError: another run held it until then.
            UsageError: the lock cannot be used.
        """
        self._lock(name, fcntl.LOCK_EX, end, stack)

    def _lock(self, name: str, kind: int, end: float, stack: contextlib.ExitStack) -> None:
        path, told = folder() / f"{name}.lock", False
        while True:
            file = opened(path)
            try:
                if locked(file, kind | fcntl.LOCK_NB) and same(file, path):
                    # Closing frees it; a holder that is killed closes it too.
                    stack.callback(os.close, file)
                    if kind == fcntl.LOCK_EX:
                        _sign(file, Holder(self.what))
                        stack.callback(os.ftruncate, file, 0)
                    return
            except OSError as error:
                os.close(file)
                raise UsageError(f"{where(path.parent)}: {path} cannot be locked ({error.strerror})") from error
            os.close(file)
            told = self.wait(name, holder(name), end, told)
            time.sleep(POLL_S)

    def wait(self, name: str, who: str, end: float, told: bool) -> bool:
        """Say who is waited for, where that has not been said yet.

        Args:
            name: of what is held.
            who: holds it.
            end: until when it is waited for, in seconds of the monotonic clock.
            told: whether it has been said.

        Returns:
            True.

        Raises:
            HeldError: the time is over.
        """
        if time.monotonic() >= end:
            raise HeldError(f"device busy ({name}): {who} holds it, and did for {self.wait_s:g} s ({WAIT})")
        if not told:
            self.say(f"{name} is held by {who}; waiting, {self.wait_s:g} s at most ({WAIT})")
        return True


def check() -> None:
    """Find out whether a claim can be made.

    Raises:
        UsageError: it cannot, and why.
    """
    patience_s()
    folder()


def patience_s() -> float:
    """Read how long a held device is waited for.

    Returns:
        Seconds.

    Raises:
        UsageError: the variable holds no number of seconds.
    """
    text = os.environ.get(WAIT, "")
    try:
        seconds = float(text or WAIT_S)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{WAIT}={text}: no number of seconds; 0 does not wait, unset waits {WAIT_S:g}")
    return seconds


def device(backend: Backend) -> str:
    """Name the device that the cases of a backend use: the first that is visible.

    Args:
        backend: cpu, gpu or tpu.

    Returns:
        ``cpu``, ``tpu``, or ``gpu-`` with the device's UUID, so that a container that sees one device of many names
        it as its machine does; with its index where the driver does not tell.
    """
    if backend is not Backend.GPU:
        return backend.value
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    command = ["nvidia-smi", f"--id={index}", "--query-gpu=uuid", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True)
        index = done.stdout.strip() or index
    plain = "".join(each if each.isalnum() or each == "-" else "-" for each in index)
    return f"gpu-{plain.removeprefix('GPU-')}"


def holder(name: str) -> str:
    """Say who holds a device now.

    Args:
        name: as ``device`` gives it.

    Returns:
        The holder in one line; words for it where it cannot be told.
    """
    path = folder() / f"{name}.lock"
    if is_held(path, fcntl.LOCK_SH):
        return _signature(path) or "another run"
    # Shared, by those who hold another device.
    others = [other for other in sorted(path.parent.glob("*.lock")) if other != path and is_held(other, fcntl.LOCK_SH)]
    return " and ".join(filter(None, map(_signature, others))) or "another run"


def _sign(file: int, name: Holder) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(asdict(name)).encode(), 0)


def _signature(path: Path) -> str:
    """Read a holder's name; anybody can write to the file, so what it holds is one short line or nothing."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return " ".join(str(Holder(**value)).split())[:_NAME_LENGTH]
    except (OSError, ValueError, TypeError):
        return ""
