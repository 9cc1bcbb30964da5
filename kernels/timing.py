"""The clock: sampling settings, warm-up, calibration and samples of a call."""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from time import perf_counter_ns
from typing import Any

from kernels.errors import UsageError, unknown

Args = tuple[Any, ...]
Feed = Callable[[int], Iterable[Args]]
"""``feed(n)`` gives the arguments of n calls; whatever must be made for them is made before it returns."""

GATE_ROUNDS = 21
"""Rounds to decide on: where processes scatter by 5 %, a comparison of as many finds a tenth in 19 cases of 20."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a case is sampled.

    Attributes:
        rounds: fresh processes per case, spread over the run.
        budget_s: seconds of steady sampling per case, split over the rounds.
        min_sample_ms: the inner call count is doubled until one sample lasts this long.
        min_samples: samples per round at least, however long they last.
        warmup_ms: warm-up lasts at least this long in every process,
        warmup_calls: and at least this many calls, unless they outlast the round's budget.
        timeout_s: deadline of one process, from its fork to its result.
        memory_mb: memory limit of one process; 0 takes four fifths of what the machine has free.
        cold: rotate the inputs of steady calls through a working set beyond the last-level cache.
        seed: of the inputs, the order of the rounds, and the bootstrap.
    """

    rounds: int = 5
    budget_s: float = 1.0
    min_sample_ms: float = 10.0
    min_samples: int = 3
    warmup_ms: float = 20.0
    warmup_calls: int = 10
    timeout_s: float = 120.0
    memory_mb: int = 0
    cold: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"rounds": 1, "budget_s": 1e-3, "min_sample_ms": 1e-3, "min_samples": 1, "timeout_s": 0.1}
        for name in ("warmup_ms", "warmup_calls", "memory_mb", "seed"):
            least[name] = 0
        for name, bound in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not bound <= value < float("inf"):
                raise UsageError(f"sampling {name} = {value!r}: give a number of at least {bound}")
        if not isinstance(self.cold, bool):
            raise UsageError(f"sampling cold = {self.cold!r}: give true or false")
        for name in ("rounds", "min_samples", "warmup_calls", "memory_mb", "seed"):
            if not isinstance(getattr(self, name), int):
                raise UsageError(f"sampling {name} = {getattr(self, name)!r}: give a whole number")

    @property
    def round_budget_ns(self) -> int:
        """Nanoseconds of steady sampling in one round."""
        return int(self.budget_s * 1e9 / self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Give the settings as plain values."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], where: str) -> Sampling:
        """Read settings from plain data.

        Args:
            value: some of the settings by name; the others keep their defaults.
            where: the file or option, for messages.

        Returns:
            The settings.

        Raises:
            UsageError: a name is unknown or a value out of range.
        """
        names = [f.name for f in fields(cls)]
        for name in value:
            if name not in names:
                raise unknown("sampling setting", name, names, where)
        try:
            return cls(**value)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None


@dataclass(slots=True)
class Loop:
    """Call a function n times by the clock.

    The loop is as bare as Python allows: at 4 µs a call, anything more is seen. Each variant keeps the output of the
    last call, so that what was timed can be checked.

    Attributes:
        call: the function under test.
        wait: returns an output once it is complete; None for a framework whose calls return complete outputs.
        feed: arguments of the calls.
        last: output of the last call.
    """

    call: Callable[..., Any]
    wait: Callable[[Any], Any] | None
    feed: Feed
    last: Any = None

    def blocked(self, n: int) -> int:
        """Time n calls, each waited for.

        Args:
            n: the number of calls, at least 1.

        Returns:
            Nanoseconds in all.
        """
        arguments, call, wait, output = self.feed(n), self.call, self.wait, None
        if wait is None:
            start = perf_counter_ns()
            for args in arguments:
                output = call(*args)
            stop = perf_counter_ns()
        else:
            start = perf_counter_ns()
            for args in arguments:
                output = wait(call(*args))
            stop = perf_counter_ns()
        self.last = output
        return stop - start

    def pipelined(self, n: int) -> int:
        """Time n calls that are waited for together; every output is held until the last is complete.

        Args:
            n: the number of calls, at least 1.

        Returns:
            Nanoseconds in all.
        """
        arguments, call, wait = self.feed(n), self.call, self.wait
        outputs: list[Any] = []
        keep = outputs.append
        start = perf_counter_ns()
        for args in arguments:
            keep(call(*args))
        if wait is not None:
            for output in outputs:
                wait(output)
        stop = perf_counter_ns()
        self.last = outputs[-1]
        return stop - start

    def enqueue(self, n: int) -> int:
        """Time n calls until each returns; waiting for their outputs is left out.

        Args:
            n: the number of calls, at least 1.

        Returns:
            Nanoseconds in all, two readings of the clock per call included.
        """
        arguments, call, wait, total, output = self.feed(n), self.call, self.wait, 0, None
        for args in arguments:
            start = perf_counter_ns()
            output = call(*args)
            total += perf_counter_ns() - start
            if wait is not None:
                wait(output)
        self.last = output
        return total


def warm_up(loop: Loop, sampling: Sampling) -> int:
    """Call until the times settle: floors in time and in calls, then until the quartiles of two windows agree.

    The first calls of a fresh process can be 10 to 90 times slow after the compile itself.

    Args:
        loop: the loop to warm.
        sampling: the floors; the round's budget is the cap.

    Returns:
        The number of calls made.
    """
    window, times, elapsed = 8, [], 0
    cap = max(sampling.round_budget_ns, int(sampling.warmup_ms * 1e6))
    while elapsed < cap:
        times.append(loop.blocked(1))
        elapsed += times[-1]
        floors_met = len(times) >= sampling.warmup_calls and elapsed >= sampling.warmup_ms * 1e6
        if floors_met and len(times) >= 2 * window and _agree(times[-2 * window : -window], times[-window:]):
            break
    return len(times)


def calibrate(loop: Callable[[int], int], sampling: Sampling, most: int, first: int = 1) -> int:
    """Double the inner call count until one sample lasts long enough.

    Args:
        loop: times n calls.
        sampling: names the least duration of a sample.
        most: the count is never more; what the calls hold in memory may set it.
        first: the count to begin with, where much is known already.

    Returns:
        The inner call count.
    """
    n = min(first, most)
    while n < most and loop(n) < sampling.min_sample_ms * 1e6:
        n = min(2 * n, most)
    return n


def sample(loop: Callable[[int], int], n: int, budget_ns: int, min_samples: int) -> list[int]:
    """Take samples within a budget.

    Args:
        loop: times n calls.
        n: the inner call count.
        budget_ns: no sample is begun after this much time, once there are enough of them.
        min_samples: how many are enough.

    Returns:
        Total nanoseconds of each sample, in order, unfiltered.
    """
    samples: list[int] = []
    stop = perf_counter_ns() + budget_ns
    while len(samples) < min_samples or perf_counter_ns() < stop:
        samples.append(loop(n))
    return samples


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Run the garbage collector, switch it off for the block, and restore it."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _agree(before: list[int], after: list[int]) -> bool:
    low, middle, high = statistics.quantiles(before, n=4)
    low_after, middle_after, high_after = statistics.quantiles(after, n=4)
    return low <= middle_after <= high and low_after <= middle <= high_after
