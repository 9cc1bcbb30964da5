"""Kernels that take more memory than they may, each in another way; and one that takes its time."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np

from kernels.spec import Kernel, Tolerance, Work

CHUNK = 16 * 2**20


def fill(mebibytes):
    return [np.ones(CHUNK // 8) for _ in range(mebibytes * 2**20 // CHUNK)]


def modest(x):
    fill(32)
    return x * 1


def private(x):
    fill(1024)
    return x * 1


def child(x):
    pid = os.fork()
    if pid == 0:
        fill(1024)
        os._exit(0)
    os.waitpid(pid, 0)
    return x * 1


def shared(x):
    # Anonymous and shared: no resource limit counts it.
    with mmap.mmap(-1, 1024 * 2**20) as block:
        for begin in range(0, len(block), CHUNK):
            block[begin : begin + CHUNK] = b"x" * CHUNK
    return x * 1


def left_behind(x):
    # Files in shared memory outlive the case and count against its group.
    with Path(os.environ["JITMATRIX_TEST_FILE"]).open("wb") as file:
        for _ in range(96 * 2**20 // CHUNK):
            file.write(b"x" * CHUNK)
    return x * 1


def slow(x):
    Path(os.environ.get("JITMATRIX_TEST_FILE", os.devnull)).write_text(str(os.getpid()))
    time.sleep(0.2 if "JITMATRIX_TEST_SLEEP_S" not in os.environ else float(os.environ["JITMATRIX_TEST_SLEEP_S"]))
    return x * 1


def _kernel(function):
    return Kernel(
        name=function.__name__,
        summary="x * 1",
        sizes={"S": {"n": 100}},
        dtypes=("float32", "float64"),
        inputs=lambda rng, dtype, n: (rng.standard_normal(n).astype(dtype),),
        work=lambda itemsize, n: Work(operations=n, nbytes=2 * n * itemsize),
        tolerance={"float32": Tolerance(1e-6, 0), "float64": Tolerance(1e-12, 0)},
        reference=lambda x: x * 1,
        implementations={"numpy": lambda: function},
    )


MODEST, PRIVATE, CHILD, SHARED = _kernel(modest), _kernel(private), _kernel(child), _kernel(shared)
LEFT_BEHIND, SLOW = _kernel(left_behind), _kernel(slow)
