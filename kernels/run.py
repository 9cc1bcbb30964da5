"""Run: measure a plan without an orchestrator, and hand over every row as soon as it is known."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from kernels import machine, roofline, startup
from kernels.case import Backend, Case, Plan, Skip
from kernels.isolation import Isolation
from kernels.measurement import Measurement
from kernels.schedule import Bench, turns
from kernels.selection import partition
from kernels.timing import Sampling

Take = Callable[[Measurement], None]
"""Takes one row."""


class Run:
    """One execution of a plan on this machine: every cell gives one row, whatever happens."""

    def __init__(self, plan: Plan, sampling: Sampling) -> None:
        """Prepare; nothing is started yet.

        Args:
            plan: cases and skips.
            sampling: how every case is sampled.
        """
        self._cases, self.settled = partition(plan)
        """``settled``: the rows that are known before anything is measured."""
        self._sampling = sampling
        self._open = dict.fromkeys(self._cases)
        self._benches: dict[Backend, Bench] = {}

    def measure(self, take: Take, limit_s: float | None = None) -> None:
        """Measure the cases; the rows of ``settled`` are not handed over again.

        Args:
            take: takes a row as soon as its case is finished.
            limit_s: no turn is begun later than this; None has no limit.

        Raises:
            KeyboardInterrupt: the user's; the processes are gone by then, and ``leave`` gives what is left.
        """
        end = time.monotonic() + limit_s if limit_s is not None else None
        for backend in dict.fromkeys(case.backend for case in self._cases):
            # A backend after the other: startup and roofline belong to one, and rounds of all would open every device.
            cases = [case for case in self._cases if case.backend is backend]
            with Isolation() as isolation:
                bench = self._benches[backend] = Bench(self._sampling, isolation)
                with contextlib.closing(bench):
                    self._describe(bench, backend, cases)
                    isolation.prepare(list(dict.fromkeys(case.framework for case in cases)))
                    for turn in turns(cases, self._sampling):
                        if end is not None and time.monotonic() > end:
                            return
                        if bench.take(turn):
                            self._hand_over(turn.case, take)

    def leave(self, take: Take, reason: str) -> None:
        """Hand over what an unfinished run leaves: cases with the rounds that they have, and the others as skipped.

        Args:
            take: takes the rows.
            reason: why the run is not finished, in words.
        """
        for case in list(self._open):
            bench = self._benches.get(case.backend)
            if bench and bench.outcomes(case):
                self._hand_over(case, take)
            else:
                del self._open[case]
                take(Measurement.of_skip(Skip(case, reason)))

    def _describe(self, bench: Bench, backend: Backend, cases: list[Case]) -> None:
        """Measure what belongs to the machine and to the frameworks, once and before any case."""
        threads = len(machine.affinity())
        bench.roofline = roofline.measure(backend, threads)
        for framework in dict.fromkeys(case.framework for case in cases):
            reading = startup.measure(framework, backend, threads)
            if reading is not None:
                bench.startup[framework] = reading

    def _hand_over(self, case: Case, take: Take) -> None:
        row = self._benches[case.backend].measurement(case)
        if row is not None and case in self._open:
            del self._open[case]
            take(row)
