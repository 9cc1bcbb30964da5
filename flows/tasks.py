"""The Prefect tasks of a run: one a case, or one for several cases where a task each would cost too much.

Rounds are spread over the run, so a case has no stretch of time of its own: its task wraps its last turn, with the
merging of all its rounds; earlier turns are taken outside of any task. A case that ended before its last round, or that
a run which is gone on with found measured, has a task that only records it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from statistics import median
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.brief import Brief
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.progress import duration, flags, number
from kernels.schedule import Turn

SHARE = 0.05
"""Of the time of cases that their tasks may take; beyond it, cases share a task."""

MOST = 100
"""Cases of one task at most."""

RECENT = 15
"""Tasks whose cost tells what the next one will: the first of a process costs more than all others."""

_IN_TASK: ContextVar[list[Brief] | None] = ContextVar("in_task", default=None)


@task(name="case", task_run_name="{name}", cache_policy=NO_CACHE, persist_result=False, retries=0)
def record(name: str, work: Callable[[], State[Any]]) -> State[Any]:
    """Run a case's task.

    It is never tried again: a slow or failing kernel is a result. A process that the machine could not start is tried
    again where it is started (``kernels.isolation``).

    Args:
        name: names the task run.
        work: takes the case's last turn, if it has one left, and merges it.

    Returns:
        How the case ended.
    """
    return work()


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the tasks of a run cost.

    Attributes:
        cases: cases that they told of.
        tasks: tasks.
        seconds: that Prefect took for them, beside what they did.
        share: of the time of all cases.
    """

    cases: int = 0
    tasks: int = 0
    seconds: float = 0.0
    share: float = 0.0

    def __str__(self) -> str:
        """Say it in a line."""
        if not self.tasks:
            return "no task was needed"
        grouped = f" ({self.tasks} tasks)" if self.tasks != self.cases else ""
        each = 1e9 * self.seconds / self.cases
        return f"Prefect's tasks: {duration(each)} a case{grouped}, {self.share:.1%} of the time"


class Tasks:
    """Makes the tasks of a run; turns may be taken by several threads, and rows are handed over one at a time."""

    def __init__(self, rounds: int, note: Callable[[str], None]) -> None:
        """Begin.

        Args:
            rounds: of every case.
            note: is told once when Prefect makes no task.
        """
        self._rounds, self._note = rounds, note
        self._told = False
        self._lock = threading.Lock()
        self._waiting: list[Brief] = []
        self._turns = self._cases = self._tasks = 0
        self._turns_s = self._tasks_s = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def through(self, turn: Turn, step: Callable[[], None]) -> None:
        """Take a turn; as a task where it is the last one of its case, and the task's group is full with it.

        Args:
            turn: the turn.
            step: takes it, and hands the case over through ``done``.

        Raises:
            Exception: what ``step`` raised; the task says so too.
        """
        with self._lock:
            due = turn.round == self._rounds - 1 and len(self._waiting) + 1 >= self.group()
            group = self._waiting if due else []
            if due:
                self._waiting = []
        if due:
            self._run(_named(turn.case.id, len(group)), group, step)
        else:
            self._timed(step)

    def done(self, brief: Brief) -> None:
        """Tell of a case that is done, and recorded in a task when enough wait for one.

        Args:
            brief: of the case.
        """
        group = _IN_TASK.get()
        if group is not None:
            group.append(brief)
            return
        with self._lock:
            self._waiting.append(brief)
            full = len(self._waiting) >= self.group()
        if full:
            self.finish()

    def finish(self) -> None:
        """Record the cases that wait for others to share a task with."""
        with self._lock:
            group, self._waiting = self._waiting, []
        if group:
            self._run(_named(group[-1].case.id, len(group) - 1), group)

    def group(self) -> int:
        """Say for how many cases the next task is.

        Returns:
            As few as keep what tasks cost within ``SHARE`` of the time of cases, by what both took until now.
        """
        if not self._recent:
            return 1
        case_s = self._turns_s / self._turns * self._rounds if self._turns else 0.0
        allowed = SHARE * case_s
        return MOST if allowed * MOST <= median(self._recent) else math.ceil(median(self._recent) / allowed)

    @property
    def overhead(self) -> Overhead:
        """What tasks cost until now."""
        whole = self._turns_s + self._tasks_s
        return Overhead(self._cases, self._tasks, self._tasks_s, self._tasks_s / whole if whole else 0.0)

    def _run(self, name: str, group: list[Brief], step: Callable[[], None] | None = None) -> None:
        """Run a task; what becomes of Prefect, the step is taken, and what it raises is raised."""
        raised: list[Exception] = []
        taken_s = 0.0
        begun = False

        def work() -> State[Any]:
            nonlocal taken_s, begun
            begun = True
            if step is not None:
                token = _IN_TASK.set(group)
                try:
                    taken_s = self._timed(step)
                except Exception as error:
                    raised.append(error)
                    return Failed(name="Interrupted", message=f"{type(error).__name__}: {error}")
                finally:
                    _IN_TASK.reset(token)
            return told(group)

        start = time.monotonic()
        try:
            record(name, work, return_state=True)
        except Exception as error:
            if not self._told:
                self._note(f"Prefect makes no task ({type(error).__name__}: {error}); the run goes on without")
                self._told = True
        if step is not None and not begun:
            step()
        with self._lock:
            self._recent.append(time.monotonic() - start - taken_s)
            self._tasks_s += self._recent[-1]
            self._tasks += 1
            self._cases += len(group)
        if raised:
            raise raised[0]

    def _timed(self, step: Callable[[], None]) -> float:
        start, before = time.monotonic(), self._tasks_s
        step()
        with self._lock:
            # A step outside of a task may have run one, for the cases that waited for it.
            took = max(0.0, time.monotonic() - start - (self._tasks_s - before))
            self._turns += 1
            self._turns_s += took
        return took


def told(group: Sequence[Brief]) -> State[Any]:
    """Say in a task's state how its cases ended.

    Args:
        group: the cases.

    Returns:
        Named by how the one case ended: Completed, Flagged, or its status; of several, Completed where all are ok, or
        how many are not. The message holds the phases' timings, or the reason, in a line for each case.
    """
    if len(group) == 1:
        (brief,) = group
        if brief.status is not Status.OK:
            return Failed(name=brief.status.value.capitalize(), message=_line(brief))
        return Completed(name="Flagged" if flags(brief) else None, message=_line(brief))
    message = "\n".join(f"{brief.case.id}: {brief.status.value}: {_line(brief)}" for brief in group)
    bad = sum(brief.status is not Status.OK for brief in group)
    return Failed(name=f"{bad} of {len(group)} failed", message=message) if bad else Completed(message=message)


def _line(brief: Brief) -> str:
    if brief.status is not Status.OK:
        return brief.reason or brief.status.value
    said = [(phase, brief.timings[phase]) for phase in Phase if phase in brief.timings and phase is not Phase.STARTUP]
    parts = [f"{phase.value.replace('_', ' ')} {duration(timing.median_ns)}" for phase, timing in said]
    rounds = max((timing.rounds for _, timing in said), default=0)
    raised = [f"flagged {', '.join(flags(brief))}"] if flags(brief) else []
    return f"{' · '.join([*parts, *raised])}, {number(rounds, 'round')}"


def _named(case_id: str, others: int) -> str:
    return f"{case_id} and {others} more" if others else case_id
