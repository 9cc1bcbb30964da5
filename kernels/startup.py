"""Startup: what a new process pays once, whatever the kernel, timed in a fresh interpreter.

Run as ``python -m kernels.startup FRAMEWORK BACKEND DTYPE``; prints the clock's readings as one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from kernels.case import Backend
from kernels.frameworks import frameworks
from kernels.isolation import environment
from kernels.measurement import Reading
from kernels.phase import Phase


def measure(framework: str, backend: Backend, threads: int) -> Reading | None:
    """Time a fresh interpreter until the framework has run its first trivial program.

    Args:
        framework: the adapter's name.
        backend: the device to open.
        threads: threads that the framework may use.

    Returns:
        The reading: interpreter, import, device and first compilation; None where the framework or device is not there.
    """
    command = [sys.executable, "-m", "kernels.startup", framework, backend.value, "float32"]
    start = time.monotonic_ns()
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        return None
    ready = json.loads(done.stdout.splitlines()[-1])["ready_ns"]
    events = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
    return Reading(Phase.STARTUP, (ready - start,), 1, events)


def main(framework: str, backend: str, dtype: str) -> None:
    """Import a framework, open its device, run its first trivial program, and tell when that was.

    Args:
        framework: the adapter's name.
        backend: the device to open.
        dtype: the dtype to set it up for.
    """
    adapter = frameworks()[framework]
    adapter(Backend(backend), dtype)
    adapter.preload()
    # The monotonic clock is the system's: parent and child read the same one.
    sys.stdout.write(json.dumps({"ready_ns": time.monotonic_ns()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
