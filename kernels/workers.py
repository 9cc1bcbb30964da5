"""Workers: the turns of a run, one at a time over all processors, or several at once with a core for each."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from kernels import machine
from kernels.assignment import Assignment
from kernels.case import Backend, Case
from kernels.errors import UsageError
from kernels.isolation import Isolation
from kernels.measurement import Outcome
from kernels.schedule import Turn

Done = TypeVar("Done")


class Workers:
    """Isolations that run assignments side by side; it stands wherever one Isolation does, and for any thread.

    Without a number there is one worker, with every processor and as many threads. With a number, every worker is
    pinned to a core of its own and uses one thread, so that none takes another's time.
    """

    def __init__(self, count: int | None = None, memory_nbytes: int | None = None) -> None:
        """Prepare; nothing is started yet.

        Args:
            count: number of pinned workers; None takes one that is not pinned.
            memory_nbytes: memory limit of a process; None shares four fifths of what is free now.

        Raises:
            UsageError: there are not that many cores, or this system pins no process.
        """
        check(count, ())
        if count is None:
            pinned: list[tuple[int, ...]] = [()]
        else:
            pinned = [(core,) for core in cores()[:count]]
        if memory_nbytes is None:
            memory_nbytes = machine.memory_available() * 4 // 5 // len(pinned)
        self._isolations = [Isolation(cpus, memory_nbytes) for cpus in pinned]
        self._idle: queue.SimpleQueue[Isolation] = queue.SimpleQueue()
        for isolation in self._isolations:
            self._idle.put(isolation)
        self._pool = ThreadPoolExecutor(len(pinned), thread_name_prefix="worker")

    def __enter__(self) -> Workers:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is running, and every process."""
        for isolation in self._isolations:
            isolation.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for isolation in self._isolations:
            isolation.__exit__(kind, error, trace)

    def prepare(self, frameworks: Sequence[str]) -> None:
        """Start the fork servers of frameworks without waiting for their imports.

        Args:
            frameworks: names of adapters.
        """
        for isolation in self._isolations:
            isolation.prepare(frameworks)

    def run(self, assignment: Assignment) -> Outcome:
        """Run an assignment in a fresh process of the next idle worker.

        Args:
            assignment: what to do.

        Returns:
            What the process left behind.

        Raises:
            StoppedError: the workers were ended meanwhile.
        """
        isolation = self._idle.get()
        try:
            return isolation.run(assignment)
        finally:
            self._idle.put(isolation)

    def take(self, turns: Sequence[Turn], take: Callable[[Turn], Done]) -> Iterator[tuple[Turn, Done]]:
        """Take turns in their order, as many at once as there are workers, and never two of one case.

        A turn is begun only while the next one is asked for: with one worker, what the caller does in between never
        runs beside a measurement.

        Args:
            turns: in the order in which they are handed out.
            take: takes one turn, in another thread, through ``run``.

        Yields:
            Each turn with what ``take`` gave, in the order in which they end.

        Raises:
            UsageError: several workers would share one device.
            BaseException: what ``take`` raised, or the user's interruption; what runs is ended on leaving the workers.
        """
        check(None if len(self._isolations) == 1 else len(self._isolations), (turn.case.backend for turn in turns))
        waiting, running = list(turns), dict[Future[Done], Turn]()
        while waiting or running:
            while len(running) < len(self._isolations) and (turn := _next(waiting, running.values())):
                # In the caller's context: an orchestrator keeps there what its tasks belong to.
                running[self._pool.submit(copy_context().run, take, turn)] = turn
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield running.pop(future), future.result()


def check(count: int | None, backends: Iterable[Backend]) -> None:
    """Refuse workers that cannot be had, before anything is started.

    Args:
        count: number of pinned workers; None takes one that is not pinned, and can always be had.
        backends: of the cases that they would measure.

    Raises:
        UsageError: there are not that many cores, several workers would share one device, or this system pins no
            process: timings side by side would then take each other's time.
    """
    if count is None:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("--workers: this system cannot pin a process to a core; leave it out")
    available, quota = cores(), machine.cpu_quota()
    most = len(available) if quota is None else max(1, min(len(available), int(quota)))
    if not 1 <= count <= most:
        limit = f"this process may use {len(available)} cores"
        if most < len(available):
            limit += f", and its control group grants the time of {quota:g}"
        raise UsageError(f"--workers {count}: {limit}; give a number from 1 to {most}")
    if count > 1 and any(backend is not Backend.CPU for backend in backends):
        raise UsageError("--workers: cases cannot share a device; leave it out, or keep --backend cpu alone")


def cores(root: Path = Path("/sys/devices/system/cpu")) -> list[int]:
    """List the cores of the affinity, one processor of each: two threads of a core share what is measured.

    Args:
        root: the directory that holds cpu0 and so on.

    Returns:
        Processor numbers, ascending.
    """
    found: dict[str, int] = {}
    for number in machine.affinity():
        siblings = str(number)
        with contextlib.suppress(OSError):
            siblings = (root / f"cpu{number}/topology/thread_siblings_list").read_text().strip()
        found.setdefault(siblings, number)
    return sorted(found.values())


def _next(waiting: list[Turn], running: Collection[Turn]) -> Turn | None:
    """Take the first turn whose case is not under way out of the list."""
    busy: set[Case] = {turn.case for turn in running}
    for position, turn in enumerate(waiting):
        if turn.case not in busy:
            return waiting.pop(position)
    return None
