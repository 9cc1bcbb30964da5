"""How a process ended, in words."""

from __future__ import annotations

import signal


def ending(status: int) -> str:
    """Say how a process ended.

    Args:
        status: of its exit, as the subprocess module gives it: below zero for a signal.

    Returns:
        A sentence without a stop; most of the real-time signals have a number and no name.
    """
    if status >= 0:
        return f"the process exited with status {status}"
    try:
        return f"the process died by {signal.Signals(-status).name}"
    except ValueError:
        return f"the process died by signal {-status}"
