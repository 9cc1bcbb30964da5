"""The flow `bench`: measure a matrix on this machine, a task per case and round, and store every sample."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from flows.order import InlineMatrix, Order
from flows.progress import CURRENT, LineReporter, Reporter
from flows.results import Run, counts, write
from flows.settings import Settings
from flows.table import duration
from kernels import machine, startup
from kernels.case import Case, Skip
from kernels.errors import UsageError
from kernels.isolation import Isolation
from kernels.measurement import Measurement, Outcome, Status
from kernels.phase import Phase
from kernels.schedule import Bench, Turn, turns
from kernels.selection import Filters, partition

_INTERRUPTED = "the run was interrupted before its first round"

Names = Annotated[list[str], Field(description="Names to keep; empty keeps all.")]


@dataclass(slots=True)
class Summary:
    """What a run left behind.

    Attributes:
        run: the run.
        measurements: of every cell of the plan.
        outcomes: of every process, for the profile.
        files: the Parquet files, timings first.
        first_case: when the first case began, in seconds of the monotonic clock.
    """

    run: Run
    measurements: list[Measurement] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    first_case: float = 0.0


@flow(name="bench", persist_result=False, validate_parameters=True)
def bench(  # noqa: PLR0917 - Prefect calls it by name
    matrix: str | InlineMatrix = "seeds",
    kernel: Names = [],  # noqa: B006 - Prefect shows the defaults in its form
    framework: Names = [],  # noqa: B006
    size: Names = [],  # noqa: B006
    dtype: Names = [],  # noqa: B006
    backend: Names = [],  # noqa: B006
    results: str | None = None,
    rounds: Annotated[int, Field(ge=1)] | None = None,
    budget_s: Annotated[float, Field(gt=0)] | None = None,
    seed: Annotated[int, Field(ge=0)] | None = None,
    timeout_s: Annotated[float, Field(gt=0)] | None = None,
) -> State[Any]:
    """Measure a matrix on this machine and store every sample as Parquet.

    Args:
        matrix: name of a matrix (seeds, smoke), or a matrix written out.
        kernel: kernels to keep, such as dense; empty keeps all.
        framework: frameworks or modes to keep, such as jax or jax/jit; empty keeps all.
        size: size labels to keep, such as M; empty keeps all.
        dtype: dtypes to keep, such as float32; empty keeps all.
        backend: cpu, gpu or tpu, instead of the matrix's own; empty keeps those.
        results: root of the results; empty takes JITMATRIX_RESULTS, or the folder results.
        rounds: fresh processes per case, spread over the run; empty takes the matrix's.
        budget_s: seconds of steady sampling per case, over all rounds; empty takes the matrix's.
        seed: seed of the inputs, the order of cases and the bootstrap.
        timeout_s: deadline of one process, in seconds.

    Returns:
        Completed when every case is ok, Failed otherwise; what was measured is stored in both.
    """
    filters = Filters(tuple(kernel), tuple(framework), tuple(size), tuple(dtype), tuple(backend))
    sampling = {"rounds": rounds, "budget_s": budget_s, "seed": seed, "timeout_s": timeout_s}
    try:
        order = Order.of(matrix, filters, sampling, results or Settings().results)
    except UsageError as error:
        return Failed(message=str(error))
    summary = Summary(Run(order, command(order)))
    report = CURRENT.get() or LineReporter(get_run_logger())
    execute(summary, report)
    found = counts(summary.measurements)
    message = "{planned} planned = {ok} ok + {failed} failed + {skipped} skipped".format(**found)
    return (Failed if found["failed"] else Completed)(message=message)


def execute(summary: Summary, report: Reporter) -> None:
    """Take every turn of a run as a task, and store what was measured, however it ends.

    Args:
        summary: holds the run; is filled.
        report: is told of the progress.

    Raises:
        BaseException: an interruption, once what was measured is stored.
    """
    order = summary.run.order
    cases, unmeasured = partition(order.plan)
    schedule = turns(cases, order.sampling)
    with Isolation() as isolation, contextlib.closing(Bench(order.sampling, isolation)) as taken:
        isolation.prepare(sorted({case.framework for case in cases}))
        report.begin(len(cases), len(schedule))
        try:
            _take_all(taken, schedule, summary, report)
            summary.run.complete = True
        finally:
            summary.measurements += unmeasured
            for case in cases:
                summary.measurements.append(taken.measurement(case) or Measurement.of_skip(Skip(case, _INTERRUPTED)))
                summary.outcomes += taken.outcomes(case)
            summary.files += write(Path(order.root), summary.run, summary.measurements)
            report.end(summary)


def command(order: Order) -> str:
    """Give the command that repeats an order.

    Args:
        order: the order.

    Returns:
        A line for the shell.
    """
    sampling = order.sampling
    settings = f"--rounds {sampling.rounds} --budget {sampling.budget_s:g} --seed {sampling.seed}"
    return " ".join(filter(None, ("jitmatrix bench --matrix", order.matrix.name, str(order.filters), settings)))


def _take_all(taken: Bench, schedule: Sequence[Turn], summary: Summary, report: Reporter) -> None:
    done: set[Case] = set()
    calibrated = False

    @task(name="measure", task_run_name="{case_id} {turn}", cache_policy=NO_CACHE, persist_result=False)
    def measure(number: int, case_id: str, turn: str) -> State[Any]:
        case = schedule[number].case
        if taken.take(schedule[number]):
            done.add(case)
        return _task_state(taken.outcomes(case))

    for number, turn in enumerate(schedule):
        if turn.round == 1 and not calibrated:
            calibrated = _calibrate(taken, schedule)
        if turn.case in done:
            continue
        summary.first_case = summary.first_case or time.monotonic()
        report.turn(turn.case.id, turn.round)
        measure(number, turn.case.id, f"{turn.round + 1}/{summary.run.order.sampling.rounds}", return_state=True)
        measurement = taken.measurement(turn.case) if turn.case in done else None
        if measurement is not None:
            report.done(measurement)
    if not calibrated:
        _calibrate(taken, schedule)


def _calibrate(taken: Bench, schedule: Sequence[Turn]) -> bool:
    """Measure what is the machine's and no case's, once per run: after a round, so that the first case starts soon."""
    threads = len(machine.affinity())
    for framework, backend in sorted({(turn.case.framework, turn.case.backend) for turn in schedule}):
        reading = startup.measure(framework, backend, threads)
        if reading is not None:
            taken.startup[framework] = reading
    return True


def _task_state(outcomes: Sequence[Outcome]) -> State[Any]:
    """Say in the state of a task how its case fares."""
    last = outcomes[-1]
    if last.status is not Status.OK:
        return Failed(name=last.status.value.capitalize(), message=last.reason)
    steady = [reading for outcome in outcomes for reading in outcome.readings if reading.phase is Phase.STEADY]
    ns = median(sum(reading.samples) / len(reading.samples) / reading.inner_calls for reading in steady)
    return Completed(message=f"steady {duration(ns)}")
