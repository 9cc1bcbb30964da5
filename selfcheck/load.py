"""A scripted random load: bursts of arithmetic of random length on random processors, the same for the same seed.

``python -m selfcheck.load SEED`` burns until it is ended, or its standard input closes.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kernels import machine

BURST_S = (0.01, 0.3)
PAUSE_S = (0.01, 0.3)
"""A burst and the pause after it, drawn evenly from these; there is one stream of them for each processor."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What one stream does next.

    Attributes:
        processor: that it burns on.
        burn_s: for how long.
        pause_s: how long it sleeps afterwards.
    """

    processor: int
    burn_s: float
    pause_s: float


def script(seed: int, stream: int, processors: list[int]) -> Iterator[Burst]:
    """Draw the bursts of one stream, without end.

    Args:
        seed: of the load.
        stream: number of the stream.
        processors: to choose from.

    Yields:
        The bursts in order.
    """
    rng = random.Random(f"{seed}/{stream}")
    while True:
        yield Burst(rng.choice(processors), rng.uniform(*BURST_S), rng.uniform(*PAUSE_S))


@contextlib.contextmanager
def load(seed: int) -> Iterator[None]:
    """Put this machine under load for the block.

    Args:
        seed: of the load.

    Yields:
        Once it has begun.
    """
    command = [sys.executable, "-m", "selfcheck.load", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def burn(seed: int) -> None:
    """Burn in one process per processor until standard input closes.

    Args:
        seed: of the load.
    """
    processors = machine.affinity()
    parent = os.getpid()
    for number in range(len(processors)):
        # A plain fork is safe: no framework is loaded here, and no thread runs.
        if os.fork() == 0:
            _stream(parent, script(seed, number, processors))
    sys.stdout.write("burning\n")
    sys.stdout.flush()
    sys.stdin.read()


def _stream(parent: int, bursts: Iterator[Burst]) -> None:
    """Follow the script until the parent is gone, however it ended."""
    while os.getppid() == parent:
        burst = next(bursts)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {burst.processor})
        stop = time.monotonic() + burst.burn_s
        while time.monotonic() < stop:
            sum(range(1000))
        time.sleep(burst.pause_s)
    os._exit(0)


if __name__ == "__main__":
    burn(int(sys.argv[1]))
