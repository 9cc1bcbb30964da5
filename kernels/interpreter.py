"""A fresh interpreter beside the run's own, that measures something of the machine and tells it as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernels.errors import UnavailableError

OWN_PATH = "-P"
"""Keeps the folder that the user stands in off the module path: a ``random.py`` of theirs is none of the run's."""


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
    command = [sys.executable, OWN_PATH, *arguments]
    try:
        done = subprocess.run(
            command, env=dict(variables), capture_output=True, text=True, timeout=deadline_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"no end after {deadline_s:g} s") from error
    except OSError as error:
        raise UnavailableError(f"the interpreter does not start: {error}") from error
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        raise UnavailableError(words[-1] if words else f"it ended with status {done.returncode} and no word")
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise UnavailableError("it printed no JSON at its end") from error
