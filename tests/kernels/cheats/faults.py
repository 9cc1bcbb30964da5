"""Kernels that fail in every way that one process can harm another, and an honest one to come after them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from kernels.suite import sincos, total


def _total(call):
    """Make a kernel that does what ``call`` does before it sums honestly."""

    def build():
        def summed(x):
            answer = call(x)
            return sum(x) if answer is None else answer

        return summed

    return replace(total.KERNEL, name=call.__name__, implementations={"python": build})


def _sincos(call, **changes):
    return replace(sincos.KERNEL, name=call.__name__, implementations={"numpy": lambda: call}, **changes)


def honest(x):
    return None


def raises(x):
    raise ArithmeticError("two lines\nof trouble")


def fails_to_compile(x):
    """As a framework does that calls a compiler: its command first, and long, then what the compiler said."""
    command = "c++ " + " ".join(f"-I/usr/include/part{number}" for number in range(60))
    raise RuntimeError(f"C++ compile error\n\nCommand:\n{command}\n\nOutput:\nmain.cpp:24:10: fatal error: no part.h\n")


def returns_nothing(x):
    return None


def wrong_shape(x):
    return np.stack([np.sin(x) + np.cos(x)] * 2)


def wrong_dtype(x):
    return (np.sin(x) + np.cos(x)).astype(np.float32)


def wrong_values(x):
    y = np.sin(x) + np.cos(x)
    y[7] += 1e-3
    return y


def prints_megabytes(x):
    sys.stdout.write("line\n" * 1_000_000)
    os.write(1, b"x" * 2_000_000)
    os.write(2, b"\xff\x00 the last words\n")


def loops_for_ever(x):
    while True:
        pass


def ignores_the_end(x):
    """Sleep in C, with the interpreter's lock held and the request to end ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(1000)


def pauses(x):
    ctypes.CDLL(None).pause()


def stops_itself(x):
    os.kill(os.getpid(), signal.SIGSTOP)


def allocates(x):
    held = []
    while True:
        held.append(np.ones(2**22))


def allocates_in_c(x):
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    while address := libc.malloc(2**26):
        ctypes.memset(address, 1, 2**26)
    raise MemoryError


def exits(x):
    sys.exit(3)


def exits_at_once(x):
    os._exit(0)


def interrupts(x):
    raise KeyboardInterrupt


def segfaults(x):
    ctypes.string_at(0)


def aborts(x):
    os.abort()


def kills_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)


def ends_by_a_signal_without_a_name(x):
    os.kill(os.getpid(), signal.SIGRTMIN + 3)


def kills_the_server_late(x):
    """Kill the server after the steady calls were timed, in the call on inputs never seen."""
    if not seen:
        seen.append(np.copy(x))
    if not np.array_equal(seen[0], x):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)


def recurses(x):
    return recurses(x)


def leaves_threads(x):
    threading.Thread(target=time.sleep, args=(1000,)).start()


NESTED = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
time.sleep(1000)
"""


def start_children():
    """Start a child in the own group, one in a session of its own, and a grandchild in a third; give their ids."""
    near = subprocess.Popen(["sleep", "1000"])
    far = subprocess.Popen([sys.executable, "-c", NESTED], start_new_session=True, stdout=subprocess.PIPE)
    return [near.pid, far.pid, int(far.stdout.readline())]


def leaves_children(x):
    if not children:
        children.extend(start_children())
        print("children", *children)


children: list[int] = []
seen: list[np.ndarray] = []


def tell_and_wait(x):
    """Write the ids of this process, its fork server and its children where the test finds them, and never return."""
    Path(os.environ["TOLD"]).write_text(" ".join(map(str, [os.getpid(), os.getppid(), *start_children()])) + "\n")
    time.sleep(1000)


def tells_affinity(x):
    if not children:
        children.append(0)
        print("affinity", os.sched_getaffinity(0))


def tells_variables(x):
    if not children:
        children.append(0)
        print(*(f"{name}={value}" for name, value in os.environ.items()))
        servers = Path(f"/proc/{os.getppid()}/environ")
        print(servers.read_text(errors="replace") if servers.exists() else "")


def kills_the_server(x):
    Path(os.environ["TOLD"]).write_text(" ".join(map(str, [os.getpid(), os.getppid(), *start_children()])) + "\n")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def returns_twice(x):
    """Return to the harness from a copy of the process too."""
    if not children:
        children.append(os.fork())
        time.sleep(0.05 if children[0] else 0)


def writes_everywhere(x):
    """Write into whatever descriptor is open, the one of the records among them."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"no JSON at all\n")
        except OSError:
            continue


def closes_everything(x):
    os.closerange(3, 64)


def stops_the_server(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(1000)


HONEST = _total(honest)
RAISES = _total(raises)
FAILS_TO_COMPILE = _total(fails_to_compile)
RETURNS_NOTHING = _sincos(returns_nothing)
WRONG_SHAPE = _sincos(wrong_shape)
WRONG_DTYPE = _sincos(wrong_dtype)
WRONG_VALUES = _sincos(wrong_values)
PRINTS_MEGABYTES = _total(prints_megabytes)
LOOPS_FOR_EVER = _total(loops_for_ever)
IGNORES_THE_END = _total(ignores_the_end)
PAUSES = _total(pauses)
STOPS_ITSELF = _total(stops_itself)
ALLOCATES = _total(allocates)
ALLOCATES_IN_C = _total(allocates_in_c)
EXITS = _total(exits)
EXITS_AT_ONCE = _total(exits_at_once)
INTERRUPTS = _total(interrupts)
SEGFAULTS = _total(segfaults)
ABORTS = _total(aborts)
KILLS_ITSELF = _total(kills_itself)
ENDS_BY_A_SIGNAL_WITHOUT_A_NAME = _total(ends_by_a_signal_without_a_name)
KILLS_THE_SERVER_LATE = _total(kills_the_server_late)
RECURSES = _total(recurses)
LEAVES_THREADS = _total(leaves_threads)
LEAVES_CHILDREN = _total(leaves_children)
RETURNS_TWICE = _total(returns_twice)
WRITES_EVERYWHERE = _total(writes_everywhere)
CLOSES_EVERYTHING = _total(closes_everything)
TELLS_AFFINITY = _total(tells_affinity)
TELLS_VARIABLES = _total(tells_variables)
TELL_AND_WAIT = _total(tell_and_wait)
KILLS_THE_SERVER = _total(kills_the_server)
STOPS_THE_SERVER = _total(stops_the_server)


def allocates_on_device():
    import jax.numpy as jnp

    def call(x):
        held = [jnp.ones((2**22,), x.dtype) + x[0] for _ in range(10_000)]
        return sum(h[0] for h in held)

    return call


ALLOCATES_ON_DEVICE = replace(
    sincos.KERNEL, name="allocates_on_device", implementations={"jax/eager": allocates_on_device}
)


def allocates_in_numba():
    def call(x):
        y = np.empty(x.size * 10**10)
        for i in range(0, y.size, 512):
            y[i] = x[0]
        return x

    return call


ALLOCATES_IN_NUMBA = replace(sincos.KERNEL, name="allocates_in_numba", implementations={"numba": allocates_in_numba})


def wrong_with_a_cache():
    import jax

    wrong = bool(jax.config.jax_compilation_cache_dir)
    return lambda x: jax.numpy.sum(x) + wrong


WRONG_WITH_A_CACHE = replace(total.KERNEL, name="wrong_with_a_cache", implementations={"jax": wrong_with_a_cache})
"""Right in every process but those that compile against a persistent cache."""
