"""Files that are locks: where they lie, and how all users of a machine make and open them safely."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from kernels.errors import UsageError

LOCKS = "JITMATRIX_LOCKS"
"""Variable that names the folder."""

_TRIES = 5


def folder() -> Path:
    """Find the folder of locks, and make it where it is not there; all users of this machine may write to it.

    Returns:
        The folder.

    Raises:
        UsageError: it cannot be made.
    """
    if named := os.environ.get(LOCKS):
        found = Path(named)
    else:
        # Judged by the mode and not by what this user may do: every user is to find the same folder.
        shared = Path("/run/lock")
        writable = (
            shared.is_dir()
            and shared.stat().st_mode & stat.S_IWOTH
            # In a container with a read-only root, whose engine mounts nothing on /run: docker's, and those of pods.
            and not os.statvfs(shared).f_flag & os.ST_RDONLY
        )
        found = shared / "jitmatrix" if writable else Path("/tmp/jitmatrix-locks")
    try:
        if not found.is_dir():
            found.mkdir(parents=True, exist_ok=True)
            # Whatever the umask says; sticky, so that nobody removes the lock of another.
            found.chmod(0o1777)
    except OSError as error:
        raise UsageError(f"{where(found)}: it cannot be made ({error.strerror})") from error
    return found


def where(found: Path) -> str:
    """Say what to do about a folder that cannot be used.

    Args:
        found: the folder.

    Returns:
        The beginning of an error's line.
    """
    return f"{LOCKS}: name a folder to which all users of this machine can write, not {found}"


def opened(path: Path) -> int:
    """Open a lock's file, and make it where it is not there.

    Args:
        path: the file.

    Returns:
        Its descriptor, for the caller to close.

    Raises:
        UsageError: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    for left in reversed(range(_TRIES)):
        try:
            with contextlib.suppress(FileNotFoundError):
                # Without O_CREAT: in a sticky folder Linux refuses that for a file of another user.
                return os.open(path, flags)
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(file, 0o666)
        except OSError as error:
            # Another process may be between making the file or the folder and giving it its mode.
            if not left:
                raise UsageError(f"{where(path.parent)}: {path} cannot be opened ({error.strerror})") from error
            time.sleep(0.05)
        else:
            return file
    raise AssertionError("the last try returns or raises")


def locked(file: int, kind: int) -> bool:
    """Lock an open file, or free it.

    Args:
        file: its descriptor.
        kind: as flock(2) takes it.

    Returns:
        False where it would have to wait.
    """
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    return True


def same(file: int, path: Path) -> bool:
    """Tell whether an open file is still the one of this name: a cleaner of old files may have removed it.

    Args:
        file: its descriptor.
        path: under which it was opened.

    Returns:
        True for a plain file that no other name leads to.
    """
    opened = os.fstat(file)
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(opened, path.lstat()) and stat.S_ISREG(opened.st_mode) and opened.st_nlink == 1
    return False


def is_held(path: Path, kind: int) -> bool:
    """Tell whether a lock is held against a kind of lock.

    Args:
        path: the file.
        kind: as flock(2) takes it.

    Returns:
        True where somebody's lock excludes it.
    """
    file = opened(path)
    try:
        return not locked(file, kind | fcntl.LOCK_NB)
    finally:
        os.close(file)
