"""The memory limit of a case: a control group where one can be made, else the resource limit of its process.

A control group counts what the case and its children really hold, shared memory among it, and the kernel of the system
ends the case when it is too much. The resource limit counts private memory that is only asked for, process by process.

Moving a process into a group waits for every processor: 5 to 20 ms each time on an idle machine. So a fork server is
moved once, after its imports, and what it forks is born in its group; only the limit is written case by case.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UnavailableError

PREFIX = "jitmatrix-"
"""Of every group's name; the id of the process that made it follows, then a number."""

LEFTOVER_SHARE = 0.125
"""Share of its limit that a group may still hold after a case, such as files in shared memory, and be used again."""

_PROC = Path("/proc")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups can be made.

    Attributes:
        version: of control groups, 1 or 2.
        parent: directory in which a group is made.
        home: the group that this process is in.
    """

    version: int
    parent: Path
    home: Path


def place(proc: Path = _PROC / "self", root: Path = Path("/")) -> Place:
    """Find where this process may make memory groups, without making one.

    Args:
        proc: directory of the process, with ``cgroup`` and ``mountinfo``.
        root: prefix of the mount points that ``mountinfo`` names.

    Returns:
        The place: below the own group, or beside it where version 2 allows no group below one with processes.

    Raises:
        UnavailableError: no memory controller is there, or not in our hands; the message says which.
    """
    mounts, own = _mounts(proc, root), _own(proc)
    if "memory" in mounts and "memory" in own:
        home = _inside(mounts["memory"], own["memory"])
        _writable(home)
        return Place(1, home, home)
    if "" not in mounts or "" not in own:
        raise UnavailableError("no control groups with a memory controller are mounted")
    home = _inside(mounts[""], own[""])
    if "memory" in _text(home / "cgroup.subtree_control").split():
        _writable(home)
        return Place(2, home, home)
    if home == mounts[""][0] or "memory" not in _text(home.parent / "cgroup.subtree_control").split():
        raise UnavailableError(f"the memory controller is not handed down at {home}")
    # A group beside the own one is not under its limits, so there must be none that a case would escape.
    for limit in ("memory.max", "cpu.max"):
        if (_text(home / limit).split() or ["max"])[0] != "max":
            raise UnavailableError(f"{home} has a {limit} of its own, which a group beside it would escape")
    _writable(home.parent)
    return Place(2, home.parent, home)


class Group:
    """A memory group that this process made, and is in until it leaves."""

    def __init__(self, where: Place) -> None:
        """Make a group and enter it.

        Args:
            where: in which place.

        Raises:
            UnavailableError: the system refuses.
        """
        self._place, self._nbytes = where, 0
        sweep(where.parent)
        self._make()

    @property
    def path(self) -> Path:
        """Directory of the group."""
        return self._path

    def limit(self, nbytes: int) -> bool:
        """Set the limit of what comes next.

        Args:
            nbytes: the most that the group may hold, swap included; the system rounds it to pages.

        Returns:
            Whether the limit holds; False where the system refuses, and a resource limit has to serve.
        """
        if nbytes == self._nbytes:
            return True
        try:
            if self._place.version == 1:
                # Memory with swap may never be limited below memory alone: lift it, then set both.
                swap = self._path / "memory.memsw.limit_in_bytes"
                if swap.exists():
                    swap.write_text("-1")
                (self._path / "memory.limit_in_bytes").write_text(str(nbytes))
                if swap.exists():
                    swap.write_text(str(nbytes))
            else:
                (self._path / "memory.max").write_text(str(nbytes))
                with contextlib.suppress(FileNotFoundError):
                    (self._path / "memory.swap.max").write_text("0")
        except OSError:
            self._nbytes = 0
            return False
        self._nbytes = nbytes
        return True

    def kills(self) -> int:
        """Count the processes that the system ended because the group was full, since the group was made."""
        name = "memory.oom_control" if self._place.version == 1 else "memory.events"
        for line in _text(self._path / name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        # Kernels before 4.13 count no kills; there, a failed charge is the nearest.
        return int(_text(self._path / "memory.failcnt") or 0)

    def renew(self) -> None:
        """Take a new group where the last case left too much behind: its files in shared memory still count."""
        name = "memory.usage_in_bytes" if self._place.version == 1 else "memory.current"
        if int(_text(self._path / name) or 0) <= LEFTOVER_SHARE * self._nbytes:
            return
        old = self._path
        with contextlib.suppress(UnavailableError):
            self._make()
            clear(old)

    def leave(self) -> None:
        """Go back to the group that this process came from, and remove its own."""
        with contextlib.suppress(OSError):
            _enter(self._place.home)
        clear(self._path)

    def _make(self) -> None:
        path = self._place.parent / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            path.mkdir()
            try:
                _enter(path)
                limit = "memory.limit_in_bytes" if self._place.version == 1 else "memory.max"
                if not os.access(path / limit, os.W_OK):
                    raise PermissionError(f"{limit} is not there to be written")
            except OSError:
                with contextlib.suppress(OSError):
                    _enter(self._place.home)
                path.rmdir()
                raise
        except OSError as error:
            raise UnavailableError(f"no memory group can be made in {self._place.parent}: {error}") from error
        self._path, self._nbytes = path, 0


def clear(path: Path, wait_s: float = 2.0) -> bool:
    """End whatever is left in a group, and remove it.

    Args:
        path: directory of the group; one that is gone already is no fault.
        wait_s: how long the ended may take to disappear, in seconds.

    Returns:
        Whether the group is gone.
    """
    deadline = time.monotonic() + wait_s
    while True:
        for pid in _text(path / "cgroup.procs").split():
            # 0 stands for a process that this one cannot see; never itself, and never its own group of processes.
            if int(pid) not in (0, os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        else:
            return True


def clear_of(parent: Path, maker: int) -> None:
    """Remove the groups of a process that has ended, with whatever is left in them.

    Args:
        parent: directory in which it made them.
        maker: its process id.
    """
    for path in parent.glob(f"{PREFIX}{maker}-*"):
        clear(path)


def sweep(parent: Path) -> list[Path]:
    """Remove groups whose maker is gone without having removed them: it was killed together with its parent.

    Args:
        parent: directory in which groups are made.

    Returns:
        The groups that were removed.
    """
    removed = []
    for path in parent.glob(f"{PREFIX}*"):
        maker = path.name.removeprefix(PREFIX).partition("-")[0]
        if maker.isdigit() and not (_PROC / maker).exists():
            with contextlib.suppress(OSError):
                path.rmdir()
                removed.append(path)
    return removed


def limit_process(nbytes: int) -> None:
    """Limit the private memory of this process and of each of its children to come, where no group can be made.

    Args:
        nbytes: the most that each may ask for.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))


def first_to_go() -> None:
    """Tell the system to end this process and its children first when memory runs out, not the harness."""
    with contextlib.suppress(OSError):
        (_PROC / "self/oom_score_adj").write_text("1000")


def _enter(path: Path) -> None:
    (path / "cgroup.procs").write_text(str(os.getpid()))


def _own(proc: Path) -> dict[str, str]:
    """Map each controller of version 1 to the process's group; version 2 has the empty name."""
    groups: dict[str, str] = {}
    for line in _text(proc / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _mounts(proc: Path, root: Path) -> dict[str, tuple[Path, str]]:
    """Map the same names to a mount point and to the group that is mounted there (proc_pid_mountinfo(5))."""
    found: dict[str, tuple[Path, str]] = {}
    for line in _text(proc / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind and kind[0] in ("cgroup", "cgroup2"):
            point = root / fields[4].lstrip("/")
            names = [""] if kind[0] == "cgroup2" else kind[-1].split(",")
            found |= dict.fromkeys(names, (point, fields[3]))
    return found


def _inside(mount: tuple[Path, str], own: str) -> Path:
    point, mounted = mount
    below = os.path.relpath(own, mounted)
    if below.startswith(".."):
        raise UnavailableError(f"this process's control group {own} lies outside what is mounted at {point}")
    return point if below == "." else point / below


def _writable(path: Path) -> None:
    if not os.access(path / "cgroup.procs", os.W_OK):
        raise UnavailableError(f"{path} is not writable for this user")


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8")
    return ""
