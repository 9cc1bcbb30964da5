"""Are answers computed, or remembered? Calls on inputs never seen against calls on inputs that repeat."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np

from kernels.frameworks.framework import Framework
from kernels.guards import REPEATED_PHASES, Finding, Flag
from kernels.spec import Function, leaves
from kernels.timing import Args, Loop

Inputs = tuple[np.ndarray, ...]

MEMO_COLLAPSE = 3.0
"""Repeated inputs may be answered this many times faster than new ones; caches of the processor stay below it."""

MEMO_FLOOR_NS = 60.0
"""Differences per call below this are the interpreter's, not a result cache's."""

TRIALS = 5
"""Trials until a kernel is found guilty; an honest one is acquitted by the first."""

ENOUGH_NS = 1_000_000_000
"""Three trials are enough where they took this long: a call that lasts is seldom interrupted alone."""

MOST_INPUTS = 16
MOST_NBYTES = 2**20
MOST_NS = 20_000_000
"""Inputs of a trial at most, by number, size and time."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison of inputs never seen with inputs that repeat.

    Attributes:
        new_ns: nanoseconds per call on new inputs.
        repeated_ns: on inputs that repeat, the fastest way of repeating them.
        same_object: whether two calls on one input returned one answer object, that no other input's answer was.
    """

    new_ns: float
    repeated_ns: float
    same_object: bool

    @property
    def collapsed(self) -> bool:
        """Whether repeating an input saved most of the time."""
        saved = self.new_ns - self.repeated_ns
        return self.new_ns > MEMO_COLLAPSE * self.repeated_ns and saved > MEMO_FLOOR_NS


def judge(trials: Sequence[Trial]) -> list[Finding]:
    """Judge answers from memory.

    Every trial must say so: one of them alone may be a busy machine. A memory that hands out copies and whose look-up
    costs a third of the work or more passes; so does one that forgets within a few calls.

    Args:
        trials: the comparisons, each with inputs of its own; at least one.

    Returns:
        A finding when the answer objects or the times say that answers came from memory.
    """
    if all(trial.same_object for trial in trials):
        return [Finding(Flag.MEMOISED, "two calls on one input returned the same answer object", REPEATED_PHASES)]
    repeated = statistics.median(trial.repeated_ns for trial in trials)
    # Over all trials too: on a machine that is busy all the time, each of them alone may look like a memory.
    least = Trial(min(trial.new_ns for trial in trials), repeated, same_object=False)
    if least.collapsed and all(trial.collapsed for trial in trials):
        new = statistics.median(trial.new_ns for trial in trials)
        reason = f"{new:.0f} ns a call on new inputs, {repeated:.0f} ns when they repeat"
        return [Finding(Flag.MEMOISED, reason, REPEATED_PHASES)]
    return []


def trials(
    framework: Framework,
    call: Function,
    *,
    settled: Inputs,
    placed: Args | None,
    draw: Callable[[int], Inputs],
    elapsed_ns: int,
    on_host: bool,
) -> list[Trial]:
    """Call a kernel on new inputs, and on inputs that repeat in each way that a memory may know.

    They repeat after others (a table of answers), at once (the last answer), and as the timed loop repeats its own (a
    memory that learns slowly). All inputs are touched before the clock, so that the processor's caches are alike.

    Args:
        framework: places inputs and waits for outputs.
        call: the kernel, compiled and warm.
        settled: the inputs of the timed loop.
        placed: the same, placed and called on before; None where calls consume their inputs.
        draw: gives inputs never seen, by number from 0.
        elapsed_ns: duration of a call on new inputs; slow calls are made on fewer of them.
        on_host: whether calls compute in this process: its own processor time is then at hand where others took turns.

    Returns:
        The trials; the first acquittal ends them.
    """
    loop = Loop(call, framework.waiter(None), lambda _: iter(()))

    def timed(arguments: Sequence[Args]) -> float:
        loop.feed = lambda _: arguments
        return loop.blocked(len(arguments)) / len(arguments)

    def timed_new(arguments: Sequence[Args]) -> float:
        # Making inputs uses up a turn on the processor, so that on a busy machine it is here that others take theirs.
        interrupted, cpu_ns = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, process_time_ns()
        wall_ns = timed(arguments)
        cpu_ns = process_time_ns() - cpu_ns
        if on_host and resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw > interrupted:
            return min(wall_ns, cpu_ns / len(arguments))
        return wall_ns

    def settled_args(count: int) -> list[Args]:
        return [framework.place(settled) if placed is None else placed for _ in range(count)]

    nbytes = max(1, sum(x.nbytes for x in settled))
    count = max(1, min(MOST_INPUTS, MOST_NBYTES // nbytes, MOST_NS // max(elapsed_ns, 1)))
    done: list[Trial] = []
    kept: list[Any] = []
    begun = perf_counter_ns()
    for number in range(TRIALS):
        if len(done) > 2 and perf_counter_ns() - begun > ENOUGH_NS:
            break
        drawn = [draw(number * count + i) for i in range(count)]
        fresh = [framework.place(x) for x in drawn]
        for args in fresh:
            framework.touch(args)

        def again(positions: Sequence[int], drawn: Any = drawn, fresh: Any = fresh) -> list[Args]:
            return [framework.place(drawn[i]) if placed is None else fresh[i] for i in positions]

        repeated = [timed(settled_args(count))]
        kept += leaves(loop.last)
        new_ns = timed_new(fresh)
        if count > 1:
            repeated.append(timed(again(range(count))))
        before = loop.last
        repeated.append(timed(again([count - 1] * count)))
        same = _same_object(before, loop.last, kept, fresh[-1])
        kept += leaves(loop.last)
        done.append(Trial(new_ns, min(repeated), same))
        if not all(trial.same_object for trial in done) and not all(trial.collapsed for trial in done):
            break
    return done


def _same_object(before: object, after: object, others: Sequence[Any], args: Args) -> bool:
    """Tell whether two answers share an object that is neither another input's answer nor part of the input.

    A kernel may return the same buffer for every input, newly filled, or what it found in its input. Python's integers
    are not counted, since small ones are always the same objects.
    """
    elsewhere = {id(leaf) for leaf in others}
    held = {id(leaf) for leaf in leaves(after)}
    return any(
        id(leaf) in held and id(leaf) not in elsewhere and not _within(leaf, args)
        for leaf in leaves(before)
        if hasattr(leaf, "__array__") or isinstance(leaf, float | complex | list)
    )


def _within(leaf: object, value: object) -> bool:
    return value is leaf or (isinstance(value, tuple | list) and any(_within(leaf, item) for item in value))
