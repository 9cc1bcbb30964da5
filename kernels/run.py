"""Run: measure a plan, and hand over every row as soon as it is known; who orchestrates it stays outside."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kernels import machine, roofline, startup
from kernels.case import Backend, Case, Plan, Skip
from kernels.device_lock import Claim, HeldError
from kernels.errors import UnavailableError
from kernels.floors import Roofline
from kernels.measurement import Measurement, Outcome, Reading, Status
from kernels.schedule import Bench, Turn, turns
from kernels.selection import partition
from kernels.shelf import Packed, Shelf
from kernels.timing import Sampling
from kernels.workers import Workers

Take = Callable[[Measurement], None]
"""Takes one row."""

Processes = Callable[[Case, Sequence[Outcome]], None]
"""Is told what the processes of a case left behind, before its row is taken."""

Through = Callable[[Turn, Callable[[], None]], None]
"""Is given each turn, and what takes it and hands over its case's row where that is its last; an orchestrator wraps it
in what it calls a task."""


@dataclass(frozen=True, slots=True)
class Past:
    """What an execution of the same plan had measured when it ended too early.

    Attributes:
        turns: the turns that were taken, and whether the case ended there otherwise than ok; the outcomes are on the
            run's shelf.
        rooflines: backend to its measured roofline.
        startups: backend and framework to the startup reading.
    """

    turns: Mapping[Turn, bool] = field(default_factory=dict)
    rooflines: Mapping[Backend, Roofline] = field(default_factory=dict)
    startups: Mapping[Backend, Mapping[str, Reading]] = field(default_factory=dict)


class Run:
    """One execution of a plan on this machine: every cell gives one row, whatever happens.

    Attributes:
        cases: what is measured.
        settled: the rows that are known before anything is measured.
        rooflines: backend to its measured roofline, empty where it has none.
        startups: backend and framework to the startup reading.
        notes: what of the machine could not be measured, each in one line with the reason.
    """

    def __init__(
        self,
        plan: Plan,
        sampling: Sampling,
        workers: int | None = None,
        keep_text: bool = False,
        *,
        past: Past | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            plan: cases and skips.
            sampling: how every case is sampled.
            workers: cases side by side, one thread each, pinned to a core of its own; None takes one at a time.
            keep_text: whether compiled programs' texts are kept, in the outcomes.
            past: what need not be measured again.
            shelf: where outcomes wait until their case is done; None keeps them in memory.
        """
        self.cases, self.settled = partition(plan)
        self._past = past or Past()
        self.rooflines: dict[Backend, Roofline] = {}
        self.startups: dict[Backend, dict[str, Reading]] = {}
        self.notes: list[str] = []
        self._sampling, self._workers, self._keep_text = sampling, workers, keep_text
        self._end = float("inf")
        self._shelf = Packed() if shelf is None else shelf
        self._open = dict.fromkeys(self.cases)
        self._handing_over = threading.Lock()
        self._benches: dict[Backend, Bench] = {}

    def measure(
        self,
        take: Take,
        limit_s: float | None = None,
        through: Through | None = None,
        claim: Claim | None = None,
        processes: Processes | None = None,
    ) -> None:
        """Measure the cases; the rows of ``settled`` are not handed over again.

        Args:
            take: takes a row as soon as its case is finished, in a worker's thread; one row at a time.
            limit_s: no turn is begun later than this; None has no limit.
            through: is given each turn, in a worker's thread; None takes it.
            claim: takes each backend's device, before a process is started for it; None takes it without a name.
            processes: is told what the processes of each finished case left behind, which is then held no longer.

        Raises:
            UsageError: there are fewer cores than workers, workers would share a device, or its lock cannot be used.
            KeyboardInterrupt: the user's; the processes are gone by then, and ``leave`` gives what is left.
        """
        self._end = time.monotonic() + limit_s if limit_s is not None else float("inf")
        through = through or (lambda turn, step: step())
        self._processes = processes
        claim = claim or Claim("a run of jitmatrix", self.notes.append)
        for backend in dict.fromkeys(case.backend for case in self.cases):
            # A backend after the other: startup and roofline belong to one, and rounds of all would open every device.
            cases = [case for case in self.cases if case.backend is backend]
            workers = Workers(self._workers)
            bench = Bench(self._sampling, workers, keep_text=self._keep_text, shelf=self._shelf)
            self._benches[backend] = bench
            try:
                # The workers end first: a process may still use the device, or write into a cache of the bench.
                with contextlib.closing(bench), claim.held(backend), workers:
                    workers.prepare(list(dict.fromkeys(case.framework for case in cases)))
                    if not self._rounds(bench, cases, workers, through, take):
                        return
            except HeldError as error:
                self._give_up(bench, cases, str(error), take)

    def _rounds(self, bench: Bench, cases: list[Case], workers: Workers, through: Through, take: Take) -> bool:
        """Take every turn of a backend's cases; gives whether there was time for all."""
        schedule, ended = self._left(bench, cases)
        # What is the machine's own is measured after the first round, so that the first case need not wait for it;
        # before, where the first round is the last: a row is handed over whole.
        last = self._sampling.rounds - 1
        first = [turn for turn in schedule if turn.round == 0 != last]
        for part, described in ((first, False), (schedule[len(first) :], True)):
            if described:
                self._describe(bench, cases)
                for case in ended:
                    self._hand_over(bench, take, case)
            done = partial(self._hand_over, bench, take) if described else ended.append
            for _ in workers.take(part, partial(self._turn, bench, through, done)):
                if time.monotonic() > self._end:
                    return False
        return True

    @staticmethod
    def _turn(bench: Bench, through: Through, done: Callable[[Case], object], turn: Turn) -> None:
        """Take a turn, in a worker's thread, and tell when its case is done; one that has ended takes no more."""

        def step() -> None:
            if bench.take(turn):
                done(turn.case)

        if not bench.ended(turn.case):
            through(turn, step)

    def _give_up(self, bench: Bench, cases: list[Case], reason: str, take: Take) -> None:
        """Hand over the rows of cases whose device could not be had: with the rounds of the past, or unavailable."""
        self._left(bench, cases)
        for case in cases:
            if self._hand_over(bench, take, case):
                continue
            del self._open[case]
            take(replace(Measurement.of_skip(Skip(case, reason)), status=Status.UNAVAILABLE))

    def _left(self, bench: Bench, cases: list[Case]) -> tuple[list[Turn], list[Case]]:
        """Give the turns that are left to take, in their order, and the cases that have none."""
        schedule = turns(cases, self._sampling)
        for turn in schedule:
            if turn in self._past.turns:
                bench.recall(turn, self._past.turns[turn])
        left = [turn for turn in schedule if turn not in self._past.turns and not bench.ended(turn.case)]
        waiting = {turn.case for turn in left}
        return left, [case for case in cases if case not in waiting]

    def leave(self, take: Take, reason: str) -> None:
        """Hand over what an unfinished run leaves: cases with the rounds that they have, and the others as skipped.

        Args:
            take: takes the rows.
            reason: why the run is not finished, in words.
        """
        self._processes = None
        for case in list(self._open):
            bench = self._benches.get(case.backend)
            if bench is None or not self._hand_over(bench, take, case):
                del self._open[case]
                take(Measurement.of_skip(Skip(case, reason)))

    def _describe(self, bench: Bench, cases: list[Case]) -> None:
        """Measure what belongs to the machine and to the frameworks, once."""
        backend = cases[0].backend
        threads = 1 if self._workers else len(machine.affinity())
        bench.startup.update(self._past.startups.get(backend, {}))
        try:
            bench.roofline = dict(self._past.rooflines.get(backend) or roofline.measure(backend, threads))
        except UnavailableError as error:
            self.notes.append(f"no roofline for {backend}: {error}; times are not held against the machine")
        self.rooflines[backend] = bench.roofline
        for framework in dict.fromkeys(case.framework for case in cases):
            try:
                if framework not in bench.startup:
                    bench.startup[framework] = startup.measure(framework, backend, threads)
            except UnavailableError as error:
                self.notes.append(f"no startup of {framework} on {backend}: {error}")
        self.startups[backend] = bench.startup

    def _hand_over(self, bench: Bench, take: Take, case: Case) -> bool:
        """Hand over the row of a case; gives whether anything of it was measured."""
        with self._handing_over:
            if (merged := bench.merged(case)) is None:
                return False
            row, outcomes = merged
            del self._open[case]
            if self._processes is not None:
                self._processes(case, outcomes)
            take(row)
            return True
