"""The execution of a run: a task per case, every turn in the journal, every row in a file, sent at last."""

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

from flows.brief import Brief
from flows.byproducts import Byproducts
from flows.device import DeviceClaim
from flows.journal import Journal, place
from flows.profile import Profile
from flows.progress import Reporter
from flows.recorder import Recorder
from flows.results import Run
from flows.resume import head, past
from flows.spool import spool
from flows.storage import LocalRoot, StorageError
from flows.store import Store
from flows.tasks import Overhead, Tasks
from flows.upload import upload
from kernels import device_lock, doctor
from kernels.case import Case
from kernels.errors import UsageError
from kernels.measurement import Measurement, Outcome
from kernels.progress import off
from kernels.run import Run as Engine
from kernels.schedule import Turn

_INTERRUPTED = "the run was interrupted before its first round"


@dataclass(slots=True)
class Summary:
    """What a run left behind.

    Attributes:
        run: the run.
        measurements: of every cell of the plan, without their samples.
        profile: where the time of the processes went.
        overhead: what Prefect's tasks cost.
        files: the Parquet files, timings first.
        first_case: when the first case began, in seconds of the monotonic clock.
        unsent: why results are not where they belong, and where they are; empty where they are there.
    """

    run: Run
    measurements: list[Brief] = field(default_factory=list)
    profile: Profile = field(default_factory=Profile)
    overhead: Overhead = field(default_factory=Overhead)
    files: list[Path] = field(default_factory=list)
    first_case: float = 0.0
    unsent: str = ""


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
    recorder = Recorder(journal, report.note)
    engine = Engine(order.plan, order.sampling, order.workers, order.programs, past=past(journal), shelf=recorder)
    store = Store(spool(order.root).folder, run, journal, report.note)
    tasks = Tasks(order.sampling.rounds, report.note)
    byproducts = Byproducts(store, run, report.note)

    def through(turn: Turn, step: Callable[[], None]) -> None:
        summary.first_case = summary.first_case or time.monotonic()
        report.turn(turn.case.id, turn.round)
        tasks.through(turn, step)

    def processes(case: Case, outcomes: Sequence[Outcome]) -> None:
        summary.profile.add(outcomes)
        byproducts.keep(case, outcomes)

    def finished(measurement: Measurement) -> None:
        recorder.machine(engine)
        measurement = store.take(measurement)
        brief = Brief.of(measurement)
        summary.measurements.append(brief)
        report.done(measurement)
        tasks.done(brief)

    def left(measurement: Measurement) -> None:
        summary.measurements.append(Brief.of(store.leave(measurement)))

    checks = doctor.quick()
    run.warnings += [f"{check.name}: {check.found}; {check.mend}" for check in checks if not check.ok]
    warning = off(checks, "jitmatrix doctor")
    if warning:
        report.note(warning)
    claim = DeviceClaim(f"run {run.id} ({run.command or 'its matrix written out'})", report.note)
    report.begin(len(engine.cases), len(engine.cases) * order.sampling.rounds)
    for measurement in engine.settled:
        summary.measurements.append(Brief.of(store.take(measurement)))
    try:
        engine.measure(finished, through=through, claim=claim, processes=processes)
        run.complete = True
        tasks.finish()
    finally:
        with undisturbed():
            engine.leave(left, _INTERRUPTED)
            run.rooflines |= engine.rooflines
            run.warnings += engine.notes
            summary.overhead = tasks.overhead
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


def _store(summary: Summary, store: Store, journal: Journal, report: Reporter) -> None:
    """Write the results; where their root cannot be written any more, elsewhere, and say where."""
    run = summary.run
    write = store.finish if run.complete else store.suspend
    try:
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
        store.move(folder)
        summary.files += write(summary.measurements)


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
