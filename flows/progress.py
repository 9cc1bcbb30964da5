"""What a run tells while it goes: a bar in a terminal, lines elsewhere, log records on a worker."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kernels.measurement import Measurement, Status
from kernels.phase import Phase
from kernels.progress import duration, flags

if TYPE_CHECKING:
    from flows.execution import Summary

LINE_S = 5.0
"""Least seconds between two lines where there is no terminal to draw a bar in."""


class Reporter(Protocol):
    """Takes what a run tells of itself."""

    def begin(self, cases: int, turns: int) -> None:
        """Say how much there is to do: cases, and turns over all rounds."""

    def turn(self, case_id: str, round_number: int) -> None:
        """Say which case is under way, in which round (from 0)."""

    def done(self, measurement: Measurement) -> None:
        """Say that a case is done."""

    def note(self, line: str) -> None:
        """Say something else, in one line."""

    def sent(self, files: int, all_files: int) -> None:
        """Say how far the upload of results is."""

    def end(self, summary: Summary) -> None:
        """Say that nothing more comes, and what the run left behind."""


CURRENT: ContextVar[Reporter | None] = ContextVar("reporter", default=None)
"""Who listens to the flow of this context; None leaves it to the log."""


class LineReporter(AbstractContextManager["LineReporter"]):
    """Lines at a bounded rate, for a log or a pipe."""

    def __init__(self, write: logging.Logger | logging.LoggerAdapter[logging.Logger] | Console) -> None:
        self.summary: Summary | None = None
        self._write = write
        self._cases = self._turns = self._turns_begun = self._done = self._bad = 0
        self._began = self._last = time.monotonic()
        self._round = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it at the last line."""

    def begin(self, cases: int, turns: int) -> None:
        """Start the clock of the time left."""
        self._cases, self._turns, self._began = cases, turns, time.monotonic()
        self.note(f"{cases} cases in {turns} turns")

    def turn(self, case_id: str, round_number: int) -> None:
        """Write a line when the last is old enough."""
        self._turns_begun += 1
        self._round = round_number
        if self._turns_begun == 1 or time.monotonic() - self._last >= LINE_S:
            left = time_left(self._began, self._turns_begun - 1, self._turns)
            self.note(f"round {round_number + 1}: {self._turns_begun}/{self._turns} turns, "
                      f"{self._done}/{self._cases} cases done, {case_id}{left}")  # fmt: skip

    def done(self, measurement: Measurement) -> None:
        """Count; a case that is not ok has a line of its own, and in a log every case has."""
        self._done += 1
        well = measurement.status is Status.OK
        if not isinstance(self._write, Console):
            line = f"{sentence(measurement)}; {self._done} of {self._cases} cases done"
            self._say(line, logging.INFO if well else logging.WARNING)
        elif not well:
            self._say(sentence(measurement))

    def note(self, line: str) -> None:
        """Write a line."""
        self._say(line)

    def _say(self, line: str, level: int = logging.INFO) -> None:
        self._last = time.monotonic()
        if isinstance(self._write, Console):
            self._write.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self._write.log(level, "%s", line)

    def sent(self, files: int, all_files: int) -> None:
        """Write a line when the last is old enough."""
        if time.monotonic() - self._last >= LINE_S:
            self.note(f"{files}/{all_files} files of results sent")

    def end(self, summary: Summary) -> None:
        """Keep the summary."""
        self.summary = summary


class BarReporter(AbstractContextManager["BarReporter"]):
    """A bar in a terminal: cases done of planned, the case under way, the time left."""

    def __init__(self, console: Console) -> None:
        self.summary: Summary | None = None
        self._console = console
        columns = (
            TextColumn("{task.fields[cases]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("turns{task.fields[left]}  {task.fields[case]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True, refresh_per_second=2)
        self._task = self._progress.add_task("", total=None, cases="starting", case="", left="")
        self._cases = self._turns = self._turns_begun = self._done = 0
        self._began = time.monotonic()

    def __enter__(self) -> BarReporter:
        """Draw the bar, from the command's start on."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._progress.stop()

    def begin(self, cases: int, turns: int) -> None:
        """Start the clock of the time left."""
        self._cases, self._turns, self._began = cases, turns, time.monotonic()
        self._progress.update(self._task, total=turns, cases=f"0/{cases} cases")

    def turn(self, case_id: str, round_number: int) -> None:
        """Move the bar by one turn."""
        left = time_left(self._began, self._turns_begun, self._turns)
        case = f"{case_id} (round {round_number + 1})"
        self._progress.update(self._task, completed=self._turns_begun, case=case, left=left)
        self._turns_begun += 1

    def done(self, measurement: Measurement) -> None:
        """Count; a case that is not ok has a line of its own above the bar."""
        self._done += 1
        self._progress.update(self._task, cases=f"{self._done}/{self._cases} cases")
        if measurement.status is not Status.OK:
            self.note(sentence(measurement))

    def note(self, line: str) -> None:
        """Write a line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def sent(self, files: int, all_files: int) -> None:
        """Let the bar tell of the upload."""
        self._progress.update(self._task, total=all_files, completed=files, case="files of results sent", left="")

    def end(self, summary: Summary) -> None:
        """Fill the bar, and keep the summary."""
        self.summary = summary
        self._progress.update(self._task, completed=self._turns, case="", left="")


def sentence(measurement: Measurement) -> str:
    """Say in a line what was found of a case.

    Args:
        measurement: of the case.

    Returns:
        Such as ``dense-jax-jit-M-float32-cpu: 2.13 ms a call, the first 53.2 ms, compiled in 36.4 ms``; of one that is
        not ok, the reason.
    """
    if measurement.status is not Status.OK:
        return f"{measurement.case.id}: {measurement.status.value}: {measurement.reason}"
    said = {Phase.STEADY: "{} a call", Phase.FIRST_CALL: "the first {}", Phase.COMPILE: "compiled in {}"}
    timings = measurement.timings
    parts = [words.format(duration(timings[phase].median_ns)) for phase, words in said.items() if phase in timings]
    raised = ", ".join(flags(measurement))
    return f"{measurement.case.id}: {', '.join(parts)}" + (f"; not to be compared: {raised}" if raised else "")


def time_left(began: float, done: int, planned: int) -> str:
    """Estimate the time left from the turns so far.

    Args:
        began: monotonic seconds at the first turn.
        done: turns that are over.
        planned: turns in all.

    Returns:
        Such as ``, 40 s left``; empty before the first turn is over.
    """
    if done == 0:
        return ""
    seconds = (time.monotonic() - began) / done * (planned - done)
    return f", {seconds:.0f} s left" if seconds < 120 else f", {seconds / 60:.0f} min left"
