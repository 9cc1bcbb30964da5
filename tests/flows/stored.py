"""Runs of real rows as they are stored: Parquet files with their marker last."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from flows.order import Order
from flows.results import Run, uuid7
from flows.store import Store
from kernels.case import Case
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.selection import Filters

DAY = datetime(2026, 11, 3, 12, tzinfo=UTC)

_EVENTS = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
_TEMPLATES: list[Run] = []


def new_run(started_at: datetime = DAY) -> Run:
    """Begin a run without looking at the machine again, which takes longer than all the rest."""
    if not _TEMPLATES:
        _TEMPLATES.append(Run(Order.of("smoke", Filters(), {}, "results"), "jitmatrix bench --matrix smoke"))
    return replace(_TEMPLATES[0], id=str(uuid7()), started_at=started_at, complete=True)


def measured(run: Run, cases: int = 3, samples: int = 5) -> list[Measurement]:
    """Make measurements of cases of the suite, with samples of their own."""
    dice = random.Random(run.id)
    found = []
    for number in range(cases):
        mode = modes()[sorted(modes())[number % len(modes())]]
        case = Case(
            ("double", "total")[number % 2], mode.framework, mode.name, "S", f"float{32 + 32 * (number % 3 > 0)}"
        )
        case = replace(case, derivative=0, size=f"S{number // len(modes())}" if number >= len(modes()) else "S")
        rounds = tuple(tuple(dice.randrange(1, 10**7) for _ in range(samples)) for _ in range(2))
        timings = {
            phase: Timing(phase, rounds, (1, 2), _EVENTS, None, {}) for phase in (Phase.FIRST_CALL, Phase.STEADY)
        }
        found.append(Measurement(case, Status.OK, None, (Phase.FIRST_CALL, Phase.STEADY), timings, {}, {}, 2))
    return found


def write_run(folder: Path, run: Run | None = None, cases: int = 3, *, suspended: bool = False) -> Run:
    """Write a run into a root or a spool; without its marker where it is suspended."""
    run = run or new_run()
    measurements = measured(run, cases)
    store = Store(folder, run, None, print)
    for measurement in measurements:
        store.take(measurement)
    (store.suspend if suspended else store.finish)(measurements)
    return run
