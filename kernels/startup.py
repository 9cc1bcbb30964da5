"""Startup: what a new process pays once, whatever the kernel, timed part by part in a fresh interpreter."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict

from kernels import interpreter
from kernels.case import Backend
from kernels.frameworks import frameworks
from kernels.measurement import Reading
from kernels.phase import Phase
from kernels.variables import environment

DEADLINE_S = 300.0
"""For one interpreter; the slowest framework on the slowest machine needs a tenth of it."""

_CHILD = """
import time
began = time.monotonic_ns()
import importlib, sys
for module in sys.argv[3].split():
    importlib.import_module(module)
imported = time.monotonic_ns()
from kernels.startup import report
report(began, imported, *sys.argv[1:3])
"""


def measure(framework: str, backend: Backend, threads: int) -> Reading:
    """Time a fresh interpreter until the framework has run its first trivial program.

    Args:
        framework: the adapter's name.
        backend: the device to open.
        threads: threads that the framework may use.

    Returns:
        The reading, the harness's own imports left out, and its parts: ``interpreter``, ``import``, ``device``
        (opened) and ``program`` (the first trivial one compiled and run). Its events are those of that program.

    Raises:
        UnavailableError: the framework or device is not there, or does not work.
    """
    modules = " ".join(frameworks()[framework].PRELOAD)
    arguments, variables = ["-c", _CHILD, framework, backend.value, modules], environment(threads)
    (start, began, imported, harness, opened, ready), events = interpreter.told(arguments, variables, DEADLINE_S)
    parts = {
        "interpreter": began - start,
        "import": imported - began,
        "device": opened - harness,
        "program": ready - opened,
    }
    del events["seconds"]
    return Reading(Phase.STARTUP, (sum(parts.values()),), 1, events, parts=parts)


def report(began: int, imported: int, framework: str, backend: str) -> None:
    """Open the device and run the first trivial program in this process; print when each was done, and the events.

    The monotonic clock is the system's: parent and child read the same one.

    Args:
        began: when the interpreter ran its first line, in nanoseconds.
        imported: when the framework was imported.
        framework: the adapter's name.
        backend: the device to open.
    """
    adapter = frameworks()[framework]
    harness = time.monotonic_ns()
    opened_framework = adapter(Backend(backend), "float32" if not adapter.DTYPES else adapter.DTYPES[0])
    opened = time.monotonic_ns()
    opened_framework.first_program()
    adapter.preload()
    times = [int(os.environ[interpreter.STARTED]), began, imported, harness, opened, time.monotonic_ns()]
    sys.stdout.write(json.dumps([times, asdict(opened_framework.events)]) + "\n")
