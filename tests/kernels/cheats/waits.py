"""Kernels whose times say little: they wait for others, or take another time at each call."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from kernels.suite import sincos, total


def sleeps():
    def call(x):
        time.sleep(0.002)
        return sum(x)

    return call


def elsewhere():
    """Let another process work, whose processor time is not this one's."""
    code = "import sys, time\nfor _ in sys.stdin:\n    time.sleep(0.002)\n    print(flush=True)"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(x):
        os.write(other.stdin.fileno(), b"\n")
        os.read(other.stdout.fileno(), 1)
        return np.sin(x) + np.cos(x)

    return call


def sleeps_jax():
    import jax.numpy as jnp

    def call(x):
        time.sleep(0.002)
        return jnp.sin(x) + jnp.cos(x)

    return call


def unsteady_python():
    rng = random.Random(0)

    def call(x):
        for _ in range(rng.choice((3, 30, 90, 160))):
            answer = sum(x)
        return answer

    return call


def unsteady_numpy():
    calls = iter(range(10**9))

    def call(x):
        for _ in range((60, 400, 60, 800)[next(calls) % 4]):
            answer = np.sin(x) + np.cos(x)
        return answer

    return call


SLEEPS = replace(total.KERNEL, name="sleeps", implementations={"python": sleeps})
SLEEPS_EAGER = replace(sincos.KERNEL, name="sleeps_eager", implementations={"jax/eager": sleeps_jax})
ELSEWHERE = replace(sincos.KERNEL, name="elsewhere", implementations={"numpy": elsewhere})
UNSTEADY_TOTAL = replace(total.KERNEL, name="unsteady_total", implementations={"python": unsteady_python})
UNSTEADY = replace(sincos.KERNEL, name="unsteady", implementations={"numpy": unsteady_numpy})
