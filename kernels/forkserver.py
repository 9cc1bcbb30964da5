"""A fork server per framework: its modules are imported once, no device is opened, every case is a fork of it.

Run as ``python -m kernels.forkserver FRAMEWORK FD``. FD is a stream socket to the parent:

- in: one JSON line a message, ``{"fork": assignment, "memory_nbytes": …, "cpus": […]}`` with two descriptors, the
  record pipe and the output pipe, or ``{"signal": N, "pid": P}``;
- out: ``{"ready": true, "groups": path}``, ``{"pid": P, "grouped": bool}`` for each fork,
  ``{"pid": P, "exit": status, "peak_nbytes": …, "memory_kills": N}`` for each end; ``{"refused": words}`` where the
  system has no room for another process now.

``groups`` is where the server makes the memory group that its cases are born in (``kernels.memory``), null where it can
make none. The server stays single-threaded and never blocks but in ``select``. When its parent is gone the socket
closes, and it ends every process group that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import re
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from kernels import memory
from kernels.assignment import Assignment
from kernels.discovery import suite
from kernels.errors import UnavailableError
from kernels.frameworks import frameworks
from kernels.interpreter import PR_SET_PDEATHSIG
from kernels.places import line_in, place
from kernels.procedure import WrongOutputError, perform

_PR_SET_CHILD_SUBREAPER = 36


def main(framework: str, descriptor: int) -> None:
    """Serve forks until the parent closes the socket.

    Args:
        framework: whose modules are imported.
        descriptor: the socket's file descriptor.
    """
    link = socket.socket(fileno=descriptor)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # An import is not interrupted by the end of the link. Later it ends this server, and whatever it forked before.
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([link], [], [], 0)[0] and not link.recv(1, socket.MSG_PEEK):
        return
    preload(framework)
    _prctl(PR_SET_PDEATHSIG, 0)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # After the imports, so that what they hold does not count against the cases.
    group = None
    with contextlib.suppress(UnavailableError):
        group = memory.Group(memory.place())
    children: set[int] = set()
    try:
        ready = {"ready": True, "groups": str(group.path.parent) if group else None}
        link.sendall(json.dumps(ready).encode() + b"\n")
        _serve(link, wake, children, group)
    finally:
        for pid in children:
            _signal_group(pid, signal.SIGKILL)
        _end_strangers(set())
        if group:
            group.leave()


def preload(framework: str) -> None:
    """Import what a fork server holds before it forks; no device is opened by it.

    Args:
        framework: the adapter's name. One that is not installed is the child's to report, case by case.
    """
    adapter = frameworks()[framework]
    for module in adapter.PRELOAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    with contextlib.suppress(ImportError):
        adapter.preload()
    suite()
    # What is loaded is never garbage. Frozen, a child's collection neither walks it nor copies its pages: for JAX and
    # Numba that walk costs more than the fork.
    gc.collect()
    gc.freeze()


def _serve(link: socket.socket, wake: int, children: set[int], group: memory.Group | None) -> None:
    buffer, descriptors, kills = b"", [], 0
    while True:
        readable, _, _ = select.select([link.fileno(), wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
            for ended in _reap(children):
                ended["memory_kills"] = group.kills() - kills if group else 0
                link.sendall(json.dumps(ended).encode() + b"\n")
        if link.fileno() not in readable:
            continue
        data, received, _, _ = socket.recv_fds(link, 1 << 16, 16)
        descriptors += received
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "signal" in message:
                if message["pid"] in children:
                    _signal_group(message["pid"], message["signal"])
                continue
            records, output = descriptors[:2]
            del descriptors[:2]
            grouped = False
            if group and message["memory_nbytes"]:
                if not children:
                    group.renew()
                grouped, kills = group.limit(message["memory_nbytes"]), group.kills()
            try:
                pid = os.fork()
            except OSError as error:
                os.close(records)
                os.close(output)
                link.sendall(json.dumps({"refused": str(error)}).encode() + b"\n")
                continue
            if pid == 0:
                link.close()
                _child(message, records, output, grouped)
            os.close(records)
            os.close(output)
            # In the child too: whichever runs first, no signal to the group can miss it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpgid(pid, pid)
            children.add(pid)
            link.sendall(json.dumps({"pid": pid, "grouped": grouped}).encode() + b"\n")


def _reap(children: set[int]) -> list[dict[str, int]]:
    """Collect ended cases; whatever else is left in their groups, or was orphaned to us, goes with them."""
    ended = []
    for pid in sorted(children):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            continue
        _signal_group(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        children.discard(pid)
        scale = 1 if sys.platform == "darwin" else 1024
        ended.append({"pid": pid, "exit": os.waitstatus_to_exitcode(status), "peak_nbytes": usage.ru_maxrss * scale})
    _end_strangers(children)
    return ended


def _end_strangers(children: set[int]) -> None:
    """End what a case left behind in sessions of its own: as subreaper, this process inherits it."""
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):
        # Each one that ends may leave children of its own behind.
        while strangers := {int(text) for text in own.read_text().split()} - children:
            for pid in strangers:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _signal_group(pid: int, number: int) -> None:
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)


def _child(message: dict[str, Any], records: int, output: int, grouped: bool) -> None:
    """Measure one assignment in a new process group; never returns."""
    status = 70
    try:
        os.setpgid(0, 0)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        faulthandler.enable()
        memory.first_to_go()
        if message["memory_nbytes"] and not grouped:
            memory.limit_process(message["memory_nbytes"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if message["cpus"] and sys.platform == "linux":
            os.sched_setaffinity(0, message["cpus"])
        status = _measure(Assignment.from_json(message["fork"]), records, message["memory_nbytes"])
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _measure(assignment: Assignment, records: int, memory_nbytes: int) -> int:
    owner = os.getpid()

    def emit(record: dict[str, Any]) -> None:
        if os.getpid() != owner:
            # A kernel forked, and the copy of the process came back to a harness that is not its own.
            os._exit(0)
        data = json.dumps(record).encode() + b"\n"
        while data:
            data = data[os.write(records, data) :]

    def end(status: str, reason: str | None = None) -> int:
        emit({"kind": "end", "status": status, "reason": reason})
        return 0

    emit({"kind": "began"})
    try:
        perform(assignment, emit)
    except WrongOutputError as error:
        return end("wrong", str(error))
    except UnavailableError as error:
        return end("unavailable", str(error))
    except MemoryError:
        return end("killed", f"out of memory: the limit is {memory_nbytes / 2**20:.0f} MiB")
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error):
            return end("killed", f"out of memory: {_line(error)}")
        traceback.print_exc()
        return end("failed", _placed(assignment.case.source, error))
    except SystemExit as error:
        return end("failed", f"the kernel exited the interpreter (status {error.code})")
    return end("ok")


def _placed(source: str | None, error: BaseException) -> str:
    """Say what was raised, after the line of the user's own file that it came through, where there is one."""
    # By its name alone: it may be its loading that failed.
    named = source if source is None or "/" in source else getattr(sys.modules.get(source), "__file__", None)
    file = Path(named).resolve() if named else None
    line = line_in(file, error) if file else 0
    return f"{place(file, line)}: {_line(error)}" if file and line else _line(error)


def _line(error: BaseException) -> str:
    """Put an error into one line of 500 characters; of a long one, what it begins with and what it calls an error."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # A compiler's complaint stands after the command that it was called by, which alone can fill a line.
    complaint = re.search(r"^.*\berror: .*$", str(error), re.MULTILINE)
    words = " ".join(complaint.group().split())[-350:] if complaint else ""
    if words in text[:500]:
        return text[:500]
    return f"{text[: 497 - len(words)]} … {words}"


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
