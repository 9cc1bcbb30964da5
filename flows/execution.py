"""The execution of a run: a task per case and round, every turn in the journal, every row in a file, sent at last."""

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
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.byproducts import keep
from flows.device import DeviceClaim
from flows.journal import Journal, place
from flows.progress import Reporter
from flows.results import Run
from flows.resume import head, past
from flows.spool import spool
from flows.storage import LocalRoot, StorageError
from flows.store import Store
from flows.upload import upload
from kernels import device_lock, doctor
from kernels.case import Case
from kernels.errors import UsageError
from kernels.measurement import Measurement, Outcome, Status
from kernels.phase import Phase
from kernels.progress import duration, off
from kernels.run import Run as Engine
from kernels.schedule import Bench, Turn

_INTERRUPTED = "the run was interrupted before its first round"


@dataclass(slots=True)
class Summary:
    """What a run left behind.

    Attributes:
        run: the run.
        measurements: of every cell of the plan.
        outcomes: of every case's processes, for the profile and the by-products.
        files: the Parquet files, timings first.
        first_case: when the first case began, in seconds of the monotonic clock.
        unsent: why results are not where they belong, and where they are; empty where they are there.
    """

    run: Run
    measurements: list[Measurement] = field(default_factory=list)
    outcomes: dict[Case, list[Outcome]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    first_case: float = 0.0
    unsent: str = ""


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


def begin(run: Run) -> tuple[Journal, list[str]]:
    """Begin a run's journal, where its results go first; storage that cannot be written to is found out here.

    Args:
        run: the run.

    Returns:
        The journal, open, and what is to be said of the storage.

    Raises:
        UsageError: the root or the spool cannot be written, for a reason that will not go away by itself; the device
            cannot be locked.
    """
    device_lock.check()
    target = run.order.root
    folder = spool(target).folder
    notes = []
    try:
        honoured = target.check()
        notes += [] if isinstance(target, LocalRoot) else [honoured]
    except StorageError as error:
        if not error.away:
            raise
        notes.append(f"{error}; the run goes on, its results wait in {folder}")
    try:
        return Journal(place(folder, run.id), head(run)), notes
    except OSError as error:
        raise UsageError(f"--results {folder}: cannot be written ({error.strerror}); name a folder of yours") from error


def execute(summary: Summary, report: Reporter, journal: Journal) -> None:
    """Take every turn of a run as a task, and store what was measured, however it ends.

    Args:
        summary: holds the run; is filled.
        report: is told of the progress.
        journal: of the run, open; what it holds is not measured again.

    Raises:
        BaseException: an interruption, once what was measured is stored.
    """
    run, order = summary.run, summary.run.order
    engine = Engine(order.plan, order.sampling, order.workers, order.programs, past(journal))
    recorder = Recorder(journal, report.note)
    store = Store(spool(order.root).folder, run, journal, report.note)

    def through(bench: Bench, turn: Turn) -> bool:
        ended = False

        def take() -> State[Any]:
            nonlocal ended
            before = len(bench.outcomes(turn.case))
            ended = bench.take(turn)
            outcomes = bench.outcomes(turn.case)
            recorder.keep(lambda: journal.turn(turn, outcomes[before:]))
            return _task_state(outcomes)

        if not bench.ended(turn.case):
            summary.first_case = summary.first_case or time.monotonic()
            report.turn(turn.case.id, turn.round)
            measure(turn.case.id, f"{turn.round + 1}/{order.sampling.rounds}", take, return_state=True)
        return ended

    def finished(measurement: Measurement) -> None:
        recorder.machine(engine)
        measurement = store.take(measurement)
        summary.measurements.append(measurement)
        report.done(measurement)

    checks = doctor.quick()
    run.warnings += [f"{check.name}: {check.found}; {check.mend}" for check in checks if not check.ok]
    warning = off(checks, "jitmatrix doctor")
    if warning:
        report.note(warning)
    claim = DeviceClaim(f"run {run.id} ({run.command or 'its matrix written out'})", report.note)
    report.begin(len(engine.cases), len(engine.cases) * order.sampling.rounds)
    for measurement in engine.settled:
        summary.measurements.append(store.take(measurement))
    try:
        engine.measure(finished, through=through, claim=claim)
        run.complete = True
    finally:
        with undisturbed():
            engine.leave(summary.measurements.append, _INTERRUPTED)
            run.rooflines |= engine.rooflines
            run.warnings += engine.notes
            summary.outcomes |= engine.outcomes()
            _store(summary, store, journal, report)
        try:
            _send(summary, report)
        finally:
            report.end(summary)


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


class Recorder:
    """Keeps a run's journal; a full disk ends that, and not the run."""

    def __init__(self, journal: Journal, note: Callable[[str], None]) -> None:
        self._journal, self._note = journal, note
        self._described = set(journal.story.rooflines)
        self._told = False

    def keep(self, write: Callable[[], None]) -> None:
        """Write a line.

        Args:
            write: writes it.
        """
        try:
            write()
        except OSError as error:
            if not self._told:
                self._note(f"{self._journal.path} cannot be written ({error.strerror}): a killed run would lose more")
                self._told = True

    def machine(self, engine: Engine) -> None:
        """Keep what was measured of the machine, once per backend.

        Args:
            engine: measures.
        """
        for backend in engine.startups.keys() - self._described:
            self.keep(lambda b=backend: self._journal.machine(b, engine.rooflines[b], engine.startups[b]))  # type: ignore[misc]
            self._described.add(backend)


def _store(summary: Summary, store: Store, journal: Journal, report: Reporter) -> None:
    """Write the results; where their root cannot be written any more, elsewhere, and say where."""
    run, folder = summary.run, store.folder
    try:
        write = store.finish if run.complete else store.suspend
        summary.files += write(summary.measurements)
        if run.complete:
            journal.remove()
        else:
            report.note(
                f"go on with it: jitmatrix bench --resume {run.id} --results {shlex.quote(run.order.root.address)}"
            )
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="jitmatrix-results-"))
        report.note(
            f"{store.folder} cannot be written ({error.strerror}): the results are in {folder}; copy them there"
        )
        aside = Store(folder, run, None, report.note)
        for measurement in summary.measurements:
            aside.take(measurement)
        summary.files += aside.finish(summary.measurements)
    if not run.complete and folder == store.folder:
        # What kernels printed is in the journal; a key that was sent has one content, and there may be more to come.
        return
    try:
        keep(folder, run, summary.outcomes)
    except OSError as error:
        report.note(f"programs and output are not kept: {folder} cannot be written ({error.strerror})")


def _send(summary: Summary, report: Reporter) -> None:
    """Send what the spool holds to its root, this run's results and what earlier ones have left."""
    target = summary.run.order.root
    own = spool(target)
    if isinstance(target, LocalRoot) or not own.pending():
        return
    sent = upload(own, target, progress=lambda done: report.sent(done.files, done.all_files))
    if sent.complete:
        report.note(str(sent))
    else:
        summary.unsent = f"failed to upload: {sent}; the files are in {own.folder}, jitmatrix upload sends them"
        report.note(summary.unsent)


def _task_state(outcomes: Sequence[Outcome]) -> State[Any]:
    """Say in the state of a task how its case fares."""
    last = outcomes[-1]
    if last.status is not Status.OK:
        return Failed(name=last.status.value.capitalize(), message=last.reason)
    steady = [reading for outcome in outcomes for reading in outcome.readings if reading.phase is Phase.STEADY]
    ns = median(sum(reading.samples) / len(reading.samples) / reading.inner_calls for reading in steady)
    return Completed(message=f"steady {duration(ns)}")
