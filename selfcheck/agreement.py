"""Agreement: the harness's loop beside timeit's, on one compiled function in one process, by turns.

``python -m selfcheck.agreement SETTINGS`` is that process: it has the environment of a case's.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np

from kernels import machine
from kernels.case import Backend, Case
from kernels.discovery import find
from kernels.frameworks import frameworks
from kernels.timing import Args, Loop, Sampling, calibrate, collector_off, warm_up
from kernels.variables import environment
from selfcheck.figure import Report, at_most
from selfcheck.interleaved import NotMeasuredError
from selfcheck.own import case

TIMEIT = (("dense", "M", None), ("sincos", "L", None), ("mlp", "M", "mlp"))
"""Kernels that are held against timeit: name, size, and file of ``selfcheck/own``."""

DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        pairs: samples of each loop, for each kernel.
        sampling: how a sample is sized, and the loop warmed.
    """

    pairs: int = 60
    sampling: Sampling = field(default_factory=Sampling)


QUICK = Settings(2, Sampling(budget_s=0.01, min_sample_ms=0.5, warmup_ms=1.0))


def measure(settings: Settings) -> Report:
    """Compare the loops in a process of their own.

    Args:
        settings: how much.

    Returns:
        How far the harness's median lies from timeit's, and above a bare loop's.

    Raises:
        NotMeasuredError: the process failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "selfcheck.agreement", json.dumps(asdict(settings))],
        env=environment(len(machine.affinity())),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise NotMeasuredError(f"the process that compares the loops failed: {done.stderr.strip()[-300:]}")
    figures, notes = [], []
    for found in json.loads(done.stdout):
        away = 100 * (max(found["ratio"], 1 / found["ratio"]) - 1)
        if found["peer"] == "timeit":
            figures.append(at_most(f"{found['case']}: distance of its median from timeit's", away, 5, " %"))
        else:
            figures.append(at_most(f"{found['case']}: its median over a bare blocked loop's", found["ratio"], 1.05))
        notes.append(
            f"{found['case']}: {found['own_ns'] / 1e3:.2f} us, {found['peer']} {found['peer_ns'] / 1e3:.2f} us, median "
            f"ratio of pairs {found['ratio']:.4f}, half of them {found['low']:.3f} to {found['high']:.3f}"
        )
    return Report(tuple(figures), tuple(notes))


def compare(settings: Settings) -> Iterator[dict[str, Any]]:
    """Time every kernel by both loops in this process.

    Args:
        settings: how much.

    Yields:
        For each kernel: case, peer, nanoseconds per call of both, the median ratio of pairs and its quartiles.
    """
    for name, size, file in TIMEIT:
        yield _compared(case(name, "jax/jit", size, file), "timeit", _timeit, settings)
    yield _compared(case("double", "jax/jit", "S"), "bare loop", _bare, settings)


def _timeit(call: Callable[..., Any], args: Args, wait: Callable[[Any], Any]) -> Callable[[int], float]:
    names = {f"x{i}": x for i, x in enumerate(args)}
    timer = timeit.Timer(f"wait(call({', '.join(names)}))", globals={"call": call, "wait": wait, **names})
    return lambda n: timer.timeit(n) * 1e9


def _bare(call: Callable[..., Any], args: Args, wait: Callable[[Any], Any]) -> Callable[[int], float]:
    (x,) = args

    def loop(n: int) -> float:
        start = perf_counter_ns()
        for _ in range(n):
            call(x).block_until_ready()
        return perf_counter_ns() - start

    return loop


def _compared(
    cell: Case, peer: str, other: Callable[..., Callable[[int], float]], settings: Settings
) -> dict[str, Any]:
    framework = frameworks()["jax"](Backend.CPU, cell.dtype)
    kernel = find(cell.kernel, cell.source)
    rng = np.random.default_rng(settings.sampling.seed)
    args = framework.place(kernel.inputs(rng, np.dtype(cell.dtype), **kernel.sizes[cell.size]))
    program = framework.program(kernel, cell)
    wait = framework.waiter(program.call(*args))
    if wait is None:
        raise NotMeasuredError(f"{cell.id}: its calls are not waited for")
    loop = Loop(program.call, wait, lambda n: itertools.repeat(args, n))
    with collector_off():
        warm_up(loop, settings.sampling)
        n = calibrate(loop.blocked, settings.sampling, 2**30)
        timed = other(program.call, args, wait)
        timed(n)
        own, others = list[float](), list[float]()
        for turn in range(settings.pairs):
            # Whoever comes first by turns: neither always follows the other.
            for mine in (True, False) if turn % 2 else (False, True):
                (own if mine else others).append((loop.blocked if mine else timed)(n) / n)
    ratios = [mine / theirs for mine, theirs in zip(own, others, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "case": cell.id,
        "peer": peer,
        "own_ns": statistics.median(own),
        "peer_ns": statistics.median(others),
        "ratio": middle,
        "low": low,
        "high": high,
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    chosen = Settings(given["pairs"], Sampling(**given["sampling"]))
    sys.stdout.write(json.dumps(list(compare(chosen))))
