"""A fresh interpreter beside the run's own, that measures something of the machine and tells it as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kernels.ending import ending
from kernels.errors import UnavailableError

PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a process gets when its parent ends."""

OWN_PATH = "-P"
"""Keeps the folder that the user stands in off the module path: a ``random.py`` of theirs is none of the run's."""

STARTED = "JITMATRIX_STARTED_NS"
"""Variable in which an interpreter finds when it was started, in nanoseconds of the system's monotonic clock."""

_LAUNCH = f"""
import ctypes, os, sys, time
ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {signal.SIGKILL:d}, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.environ["{STARTED}"] = str(time.monotonic_ns())
    os.execv(sys.argv[2], sys.argv[2:])
"""


def command(arguments: Sequence[str]) -> list[str]:
    """Compose the command of an interpreter that ends with the thread that starts it, however that ends.

    A launcher asks the system for that and becomes the interpreter: asked for in the interpreter itself it would be
    imports in what ``kernels.startup`` times, and between fork and exec no Python is safe beside other threads.

    Args:
        arguments: what follows the interpreter's name.

    Returns:
        The command; where the system is not Linux, the interpreter's own.
    """
    own = [sys.executable, OWN_PATH, *arguments]
    return own if sys.platform != "linux" else [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), *own]


def told(arguments: Sequence[str], variables: Mapping[str, str], deadline_s: float) -> Any:
    """Run an interpreter, and give what it told.

    Args:
        arguments: what follows the interpreter's name.
        variables: its environment.
        deadline_s: seconds until it is ended.

    Returns:
        The last line that it printed, read as JSON.

    Raises:
        UnavailableError: it failed, told nothing, or was not done in time; the message is one line.
    """
    started = {STARTED: str(time.monotonic_ns())}
    try:
        done = subprocess.run(
            command(arguments),
            env={**variables, **started},
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"no end after {deadline_s:g} s") from error
    except OSError as error:
        raise UnavailableError(f"the interpreter does not start: {error}") from error
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        # What it raised itself as unavailable is told as it stands; any other error with the name of its type.
        last = words[-1].removeprefix(f"{UnavailableError.__module__}.{UnavailableError.__name__}: ") if words else ""
        raise UnavailableError(last or f"{ending(done.returncode)} and said nothing")
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise UnavailableError("it printed no JSON at its end") from error
