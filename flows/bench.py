"""The flow `bench`: measure a matrix on this machine, a task per case and round, and store every sample."""

from __future__ import annotations

import contextlib
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from flows.byproducts import keep
from flows.order import InlineMatrix, Order
from flows.progress import CURRENT, LineReporter, Reporter
from flows.results import Run, counts, write
from flows.settings import Settings
from kernels import doctor
from kernels.case import Case
from kernels.errors import UsageError
from kernels.measurement import Measurement, Outcome, Status
from kernels.phase import Phase
from kernels.progress import duration, off
from kernels.run import Run as Engine
from kernels.schedule import Bench, Turn
from kernels.selection import Filters

_INTERRUPTED = "the run was interrupted before its first round"

Names = Annotated[list[str], Field(description="Names to keep; empty keeps all.")]
Orders = Annotated[list[Annotated[int, Field(ge=0, le=2)]], Field(description="0, 1, 2; empty keeps the matrix's own.")]


@dataclass(slots=True)
class Summary:
    """What a run left behind.

    Attributes:
        run: the run.
        measurements: of every cell of the plan.
        outcomes: of every case's processes, for the profile and the by-products.
        files: the Parquet files, timings first.
        first_case: when the first case began, in seconds of the monotonic clock.
    """

    run: Run
    measurements: list[Measurement] = field(default_factory=list)
    outcomes: dict[Case, list[Outcome]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    first_case: float = 0.0


@flow(name="bench", persist_result=False, validate_parameters=True)
def bench(  # noqa: PLR0917 - Prefect calls it by name
    matrix: str | InlineMatrix | None = None,
    kernel: Names = [],  # noqa: B006 - Prefect shows the defaults in its form
    framework: Names = [],  # noqa: B006
    size: Names = [],  # noqa: B006
    dtype: Names = [],  # noqa: B006
    backend: Names = [],  # noqa: B006
    derivative: Orders = [],  # noqa: B006
    results: str | None = None,
    rounds: Annotated[int, Field(ge=1)] | None = None,
    budget_s: Annotated[float, Field(gt=0)] | None = None,
    seed: Annotated[int, Field(ge=0)] | None = None,
    timeout_s: Annotated[float, Field(gt=0)] | None = None,
    min_sample_ms: Annotated[float, Field(gt=0)] | None = None,
    cold: bool | None = None,
    workers: Annotated[int, Field(ge=1)] | None = None,
    programs: bool = False,
) -> State[Any]:
    """Measure a matrix on this machine and store every sample as Parquet.

    Args:
        matrix: name of a matrix (seeds, smoke, all), or a matrix written out; empty takes seeds, or all for kernels of
            your own.
        kernel: kernels to keep, such as dense, or yours, as /path/to/mine.py or package.module:name; empty keeps all.
        framework: frameworks or modes to keep, such as jax or jax/jit; empty keeps all.
        size: size labels to keep, such as M; empty keeps all.
        dtype: dtypes to keep, such as float32; empty keeps all.
        backend: cpu, gpu or tpu, instead of the matrix's own; empty keeps those.
        derivative: 0 the value, 1 the gradient, 2 a Hessian-vector product, instead of the matrix's own.
        results: root of the results; empty takes JITMATRIX_RESULTS, or the folder results.
        rounds: fresh processes per case, spread over the run; empty takes the matrix's.
        budget_s: seconds of steady sampling per case, over all rounds; empty takes the matrix's.
        seed: seed of the inputs, the order of cases and the bootstrap.
        timeout_s: deadline of one process, in seconds.
        min_sample_ms: a sample lasts at least this long, by doubling its calls; empty takes 10.
        cold: rotate the inputs of steady calls through a working set beyond the last-level cache.
        workers: cases side by side, one thread each, pinned to a core of its own; empty takes one at a time.
        programs: keep the text of every compiled program, under hlo/ by its hash.

    Returns:
        Completed when every case is ok, Failed otherwise; what was measured is stored in both.
    """
    names = tuple(kernel), tuple(framework), tuple(size), tuple(dtype), tuple(backend)
    filters = Filters(*names, derivative=tuple(derivative))
    sampling = {
        "rounds": rounds,
        "budget_s": budget_s,
        "seed": seed,
        "timeout_s": timeout_s,
        "min_sample_ms": min_sample_ms,
        "cold": cold,
    }
    try:
        order = Order.of(matrix, filters, sampling, results or Settings().results, workers=workers, programs=programs)
    except UsageError as error:
        return Failed(message=str(error))
    summary = Summary(Run(order, command(order)))
    execute(summary, CURRENT.get() or LineReporter(get_run_logger()))
    found = counts(summary.measurements, filters)
    message = "{planned} planned = {ok} ok + {failed} failed + {skipped} skipped".format(**found)
    return (Failed if found["failed"] else Completed)(message=message)


@task(name="measure", task_run_name="{case_id} {turn}", cache_policy=NO_CACHE, persist_result=False)
def measure(case_id: str, turn: str, take: Callable[[], State[Any]]) -> State[Any]:
    """Take one turn of a case.

    Args:
        case_id: names the task run,
        turn: with the round.
        take: measures.

    Returns:
        How the case fares; never an exception of the kernel's.
    """
    return take()


def execute(summary: Summary, report: Reporter) -> None:
    """Take every turn of a run as a task, and store what was measured, however it ends.

    Args:
        summary: holds the run; is filled.
        report: is told of the progress.

    Raises:
        BaseException: an interruption, once what was measured is stored.
    """
    run, order = summary.run, summary.run.order
    engine = Engine(order.plan, order.sampling, order.workers, order.programs)
    summary.measurements += engine.settled

    def through(bench: Bench, turn: Turn) -> bool:
        ended = False

        def take() -> State[Any]:
            nonlocal ended
            ended = bench.take(turn)
            return _task_state(bench.outcomes(turn.case))

        if not bench.ended(turn.case):
            summary.first_case = summary.first_case or time.monotonic()
            report.turn(turn.case.id, turn.round)
            measure(turn.case.id, f"{turn.round + 1}/{order.sampling.rounds}", take, return_state=True)
        return ended

    def finished(measurement: Measurement) -> None:
        summary.measurements.append(measurement)
        report.done(measurement)

    checks = doctor.quick()
    run.warnings += [f"{check.name}: {check.found}; {check.mend}" for check in checks if not check.ok]
    warning = off(checks, "jitmatrix doctor")
    if warning:
        report.note(warning)
    report.begin(len(engine.cases), len(engine.cases) * order.sampling.rounds)
    try:
        engine.measure(finished, through=through)
        run.complete = True
    finally:
        with undisturbed():
            engine.leave(summary.measurements.append, _INTERRUPTED)
            run.rooflines |= engine.rooflines
            run.warnings += engine.notes
            summary.outcomes |= engine.outcomes()
            _store(summary, report)
            report.end(summary)


def command(order: Order) -> str | None:
    """Give the command that repeats an order.

    Args:
        order: the order.

    Returns:
        A line for the shell; None for a matrix that was written out.
    """
    if not isinstance(order.named, str):
        return None
    sampling = order.sampling
    words = ["jitmatrix", "bench", "--matrix", order.named, *shlex.split(str(order.filters))]
    words += ["--rounds", str(sampling.rounds), "--budget", f"{sampling.budget_s:g}", "--seed", str(sampling.seed)]
    words += ["--timeout", f"{sampling.timeout_s:g}", "--min-sample", f"{sampling.min_sample_ms:g}"]
    words += ["--cold"] if sampling.cold else []
    words += ["--workers", str(order.workers)] if order.workers else []
    words += ["--programs"] if order.programs else []
    return shlex.join([*words, "--results", str(order.root)])


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no interruption in while what was measured is stored; a second Ctrl-C would lose it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _store(summary: Summary, report: Reporter) -> None:
    """Write the results; where their root cannot be written any more, elsewhere, and say where."""
    root = summary.run.order.root
    try:
        summary.files += write(root, summary.run, summary.measurements)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="jitmatrix-results-"))
        report.note(f"{root} cannot be written ({error.strerror}): the results are in {elsewhere}; copy them there")
        summary.files += write(elsewhere, summary.run, summary.measurements)
        root = elsewhere
    try:
        keep(root, summary.run, summary.outcomes)
    except OSError as error:
        report.note(f"programs and output are not kept: {root} cannot be written ({error.strerror})")


def _task_state(outcomes: Sequence[Outcome]) -> State[Any]:
    """Say in the state of a task how its case fares."""
    last = outcomes[-1]
    if last.status is not Status.OK:
        return Failed(name=last.status.value.capitalize(), message=last.reason)
    steady = [reading for outcome in outcomes for reading in outcome.readings if reading.phase is Phase.STEADY]
    ns = median(sum(reading.samples) / len(reading.samples) / reading.inner_calls for reading in steady)
    return Completed(message=f"steady {duration(ns)}")
