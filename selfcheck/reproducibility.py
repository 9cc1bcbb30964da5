"""Reproducibility at equal time: how far repeats of one measurement lie apart, and what pyperf takes for it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kernels.case import Backend
from kernels.discovery import find
from kernels.frameworks import frameworks
from kernels.statistics import headline
from kernels.timing import Args, Sampling
from kernels.workers import Workers
from selfcheck.figure import Figure, Report, at_most
from selfcheck.interleaved import NotMeasuredError, interleaved, steady
from selfcheck.load import load
from selfcheck.own import CHAINS, chain


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        modes: of the kernels of about 130 us.
        repeats: measurements of it, interleaved in one run.
        sampling: of each repeat.
        pyperf: options of pyperf.
    """

    modes: tuple[str, ...] = tuple(CHAINS)
    repeats: int = 12
    sampling: Sampling = field(default_factory=lambda: Sampling(budget_s=0.2, min_sample_ms=2.0))
    pyperf: tuple[str, ...] = ("--fast",)


QUICK = Settings(
    ("numpy/eager",),
    2,
    Sampling(rounds=2, budget_s=0.01, min_sample_ms=0.5, warmup_ms=1.0),
    ("--debug-single-value",),
)


def measure(settings: Settings) -> Report:
    """Measure a kernel of each mode over and over, quiet and under load; then pyperf measures it under the same load.

    Args:
        settings: how much.

    Returns:
        Largest over smallest of the repeats, and the time of a repeat against that of pyperf.
    """
    figures, notes = list[Figure](), list[str]()
    with Workers() as workers:
        for mode in settings.modes:
            # The first process waits for the fork server's imports.
            interleaved(workers, [chain(mode)], Sampling(1, 0.01))
            for where, bound in (("quiet", 1.05), ("under load", 1.10)):
                with _loaded(where, settings):
                    outcomes = interleaved(workers, [chain(mode)] * settings.repeats, settings.sampling)
                repeat_s = median(sum(outcome.wall_ns for outcome in repeat) / 1e9 for repeat in outcomes)
                found = [headline(steady(repeat)) for repeat in outcomes]
                for what, values in (
                    ("headline", [h.median.value for h in found]),
                    ("pooled minimum", [h.minimum for h in found]),
                ):
                    name = f"{mode}, {where}: largest {what} over smallest of {settings.repeats} repeats"
                    figures.append(at_most(name, max(values) / min(values), bound))
                    notes.append(f"{mode}, {where}: {what} {min(values) / 1e3:.1f} to {max(values) / 1e3:.1f} us")
                notes.append(
                    f"{mode}, {where}: a repeat takes {repeat_s:.2f} s, start and end of its processes included"
                )
            with _loaded(where, settings):
                peer_s, peer_us = _pyperf(mode, settings)
            options = " ".join(settings.pyperf)
            notes.append(f"{mode}, {where}: pyperf {options} takes {peer_s:.1f} s, and gives {peer_us:.1f} us (mean)")
            figures.append(at_most(f"{mode}, {where}: time of a repeat over that of pyperf", repeat_s / peer_s, 0.05))
    return Report(tuple(figures), tuple(notes))


def _loaded(where: str, settings: Settings) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if where == "quiet" else load(settings.sampling.seed)


def prepared(mode: str) -> tuple[Callable[..., Any], Args]:
    """Make the kernel ready for pyperf's processes.

    Args:
        mode: of the kernel.

    Returns:
        A function that blocks, and its arguments.
    """
    cell = chain(mode)
    framework = frameworks()[cell.framework](Backend.CPU, cell.dtype)
    kernel = find(cell.kernel, cell.source)
    args = framework.place(kernel.inputs(np.random.default_rng(0), np.dtype(cell.dtype), **kernel.sizes[cell.size]))
    call = framework.program(kernel, cell).call
    wait = framework.waiter(call(*args))
    return (call if wait is None else lambda *x: wait(call(*x))), args


def _pyperf(mode: str, settings: Settings) -> tuple[float, float]:
    """Give the seconds that pyperf takes, and the microseconds that it finds."""
    setup = f"from selfcheck.reproducibility import prepared; call, args = prepared({mode!r})"
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as folder:
        file = Path(folder, "pyperf.json")
        options = [*settings.pyperf, "-o", str(file), "-s", setup]
        command = [sys.executable, "-m", "pyperf", "timeit", *options, "call(*args)"]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.monotonic() - start
        if done.returncode != 0:
            raise NotMeasuredError(f"pyperf failed: {done.stderr.strip()[-300:]}")
        runs = json.loads(file.read_text())["benchmarks"][0]["runs"]
    values = [value for run in runs for value in run.get("values", ())]
    return wall, 1e6 * sum(values) / len(values)
