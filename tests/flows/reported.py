"""Runs to report on: the whole suite in every framework and mode, with times by a simple model."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from flows.results import Run
from flows.store import Store
from kernels.case import Case
from kernels.discovery import suite
from kernels.floors import declared_work
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import REPEATED, Phase
from tests.flows.stored import DAY, new_run

_EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
_CALL_NS = {"numpy": 900, "numba": 250, "jax": 9_000, "torch": 3_000, "tensorflow": 60_000, "python": 80}
_SLOWDOWN = {"eager": 2.6, "plain": 90.0, "lru_cache": 90.0, "njit": 1.7, "script": 2.2, "function": 1.9}
_STAGES_MS = {Phase.TRACE: 9, Phase.LOWER: 12, Phase.COMPILE: 70, Phase.RELOAD: 25, Phase.RETRACE: 90}
_ONCE_MS = {Phase.STARTUP: 480, Phase.TRANSFER: 0.4}


def cases(limit: int | None = None) -> list[Case]:
    """List cases of the suite: every framework, mode, size and dtype; the first so many where there is a limit."""
    found = [
        Case(kernel.name, mode.framework, mode.name, size, dtype)
        for kernel in suite().values()
        for size in kernel.sizes
        for dtype in kernel.dtypes
        for mode in modes().values()
    ]
    return found[:limit]


def measured(run: Run, chosen: list[Case], slower: float = 1.0) -> Iterator[Measurement]:
    """Measure by the model: a cost of each call, the work at a rate, stages of compiling; some flagged, some fail."""
    for case in chosen:
        dice = random.Random(f"{run.id}/{case.id}")
        fate = random.Random(case.id).random()
        mode = modes()[f"{case.framework}/{case.mode}"]
        if fate < 0.02:
            status, reason = dice.choice(
                [(Status.TIMEOUT, "no answer within 120 s"), (Status.WRONG, "values differ: <nan> where 0.5 & more")]
            )
            yield Measurement(case, status, reason, mode.phases, {}, {}, {}, 5)
            continue
        work = declared_work(case)
        attainable = max((work.operations or 0) / 40, (work.nbytes or 0) / 12, 1.0)
        steady = _CALL_NS[case.framework] + attainable * _SLOWDOWN.get(case.mode, 1.4) * slower
        first = steady * 1.5 + sum(ms * 1e6 for stage, ms in _STAGES_MS.items() if stage in mode.phases)
        means = {Phase.STEADY: steady, Phase.FIRST_CALL: first, Phase.PIPELINED: steady * 0.8}
        means |= {phase: ms * 1e6 for phase, ms in (_STAGES_MS | _ONCE_MS).items()}
        flags = {"noisy": "the rounds differ twofold <b>here</b>"} if fate > 0.96 else {}
        timings = {
            phase: _timing(phase, means.get(phase, steady * 0.3), dice, flags if phase is Phase.STEADY else {})
            for phase in mode.phases
        }
        share = attainable / steady
        yield Measurement(case, Status.OK, None, mode.phases, timings, {}, {"roofline_share": share}, 5)


def write_report_runs(root: Path, limit: int | None = None, runs: int = 1, mode: str | None = None) -> list[Run]:
    """Write runs a day apart, the newest last, of all modes or one; from the third on every case is a fifth slower."""
    written = []
    for number in range(runs):
        run = new_run(DAY + timedelta(days=number))
        store = Store(root, run, None, print)
        chosen = [case for case in cases(limit) if mode in (None, f"{case.framework}/{case.mode}")]
        found = list(measured(run, chosen, 1.2 if number >= 2 else 1.0))
        for measurement in found:
            store.take(measurement)
        store.finish(found)
        written.append(run)
    return written


def _timing(phase: Phase, mean_ns: float, dice: random.Random, flags: dict[str, str]) -> Timing:
    calls = max(1, 2 ** math.ceil(math.log2(1e7 / mean_ns))) if phase in REPEATED and mean_ns < 1e7 else 1
    rounds = []
    for _ in range(5):
        middle = mean_ns * dice.lognormvariate(0, 0.35 if flags else 0.03)
        count = 20 if phase in REPEATED else 1
        rounds.append(tuple(round(calls * middle * dice.lognormvariate(0, 0.02)) for _ in range(count)))
    return Timing(phase, tuple(rounds), (calls,) * 5, _EVENTS, None, flags)
