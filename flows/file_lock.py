"""A lock that the system frees when its holder closes the file, or is killed."""

from __future__ import annotations

import fcntl


def locked(number: int) -> bool:
    """Lock an open file against other processes, without waiting.

    Args:
        number: its descriptor.

    Returns:
        Whether it is this process's now; false where another has it.
    """
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
