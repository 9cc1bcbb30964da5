"""Does this timing mean what it says? Each guard gives a reason not to trust an ``ok``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kernels.frameworks.framework import Compiled, Events, Framework
from kernels.phase import REPEATED, Phase
from kernels.spec import Work, leaves


class Flag(StrEnum):
    """A reason not to trust an ``ok``: the row is kept, and never ranked."""

    CONSTANT_INPUTS = "constant_inputs"
    DEAD_WORK = "dead_work"
    RECOMPILED = "recompiled"
    FALLBACK = "fallback"
    MEMOISED = "memoised"
    MUTATED = "mutated"
    NOISY = "noisy"
    CONTENDED = "contended"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a guard found.

    Attributes:
        flag: which guard.
        reason: in words, with the numbers.
        phases: the phases it falsifies; empty for all of the case.
    """

    flag: Flag
    reason: str
    phases: tuple[Phase, ...] = ()


REPEATED_PHASES = tuple(sorted(REPEATED))

LEAST_WORK_SHARE = 0.25
"""A compiled program may do this share of the declared operations; honest rewriting stays above it."""

FASTER_THAN_ROOFLINE = 2.0
"""A timing may beat the measured roofline by this factor, for what the roofline itself missed of the machine."""

MEMO_COLLAPSE = 3.0
"""Repeated inputs may be answered this many times faster than new ones; caches of the processor stay below it."""

MEMO_FLOOR_NS = 60.0
"""Differences per call below this are the interpreter's, not a result cache's."""

NOISY_SPREAD = 0.3
"""Interquartile range over median of the steady samples, above which they are noisy."""

LEAST_CPU_SHARE = 0.8
"""Processor time over wall time of a steady loop on the host, below which the process was not let run."""

STEAL_SHARE = 0.05
"""Share of processor time that the hypervisor kept, above which the machine was contended."""


def program(compiled: Compiled, inputs: int, work: Work) -> list[Finding]:
    """Judge a compiled program by its text and its own estimates.

    Args:
        compiled: what is known of the program.
        inputs: the number of inputs of the case.
        work: the declared least work.

    Returns:
        Findings: constant inputs, dropped work, calls back into the interpreter.
    """
    found = []
    text = compiled.text or ""
    if inputs and compiled.parameters == 0:
        found.append(Finding(Flag.CONSTANT_INPUTS, "the compiled program reads no input: its work was folded away"))
    elif compiled.parameters is not None and compiled.parameters < inputs:
        reason = f"the compiled program reads {compiled.parameters} of {inputs} inputs"
        found.append(Finding(Flag.DEAD_WORK, reason))
    # Loops are counted once and library calls not at all, so the estimate says something only of a straight program.
    straight = not any(mark in text for mark in (" while(", " custom-call(", " call("))
    if straight and compiled.operations is not None and compiled.operations < LEAST_WORK_SHARE * work.operations:
        reason = (
            f"the compiled program does {compiled.operations:.3g} operations, the kernel declares {work.operations:.3g}"
        )
        found.append(Finding(Flag.DEAD_WORK, reason))
    if "python_cpu_callback" in text or "python_gpu_callback" in text or "host_callback" in text:
        found.append(Finding(Flag.FALLBACK, "the compiled program calls back into Python"))
    return found


def device(framework: Framework, output: object, backend: str) -> list[Finding]:
    """Judge where the outputs live.

    Args:
        framework: reads an output's device from the output.
        output: what the kernel returned.
        backend: what the case says.

    Returns:
        A finding when any leaf lives elsewhere.
    """
    places = {framework.backend_of(leaf) for leaf in leaves(output)}
    if places <= {backend}:
        return []
    return [Finding(Flag.FALLBACK, f"outputs live on {', '.join(sorted(places))}, the case says {backend}")]


def recompiled(events: Events, phase: Phase) -> list[Finding]:
    """Judge the events inside a timed loop.

    Args:
        events: what the framework reported between the loop's begin and end.
        phase: the loop's phase.

    Returns:
        A finding when anything was compiled or lowered in it.
    """
    if events.compiles == 0 and events.lowerings == 0:
        return []
    reason = f"{events.compiles} compilations and {events.lowerings} lowerings inside the timed {phase.value} loop"
    return [Finding(Flag.RECOMPILED, reason, (phase,))]


def memoised(new_ns: Sequence[float], repeated_ns: Sequence[float], same_object: bool) -> list[Finding]:
    """Judge answers from memory: compare calls on inputs never seen with calls on the same inputs again.

    Args:
        new_ns: nanoseconds per call on new inputs, one number per trial.
        repeated_ns: the same inputs once more, trial by trial.
        same_object: whether two calls returned one and the same answer object.

    Returns:
        A finding when the answer or the time says that it came from memory.
    """
    if same_object:
        return [Finding(Flag.MEMOISED, "two calls returned the same answer object", REPEATED_PHASES)]
    new, repeated = statistics.median(new_ns), statistics.median(repeated_ns)
    collapsed = all(n > MEMO_COLLAPSE * r for n, r in zip(new_ns, repeated_ns, strict=True))
    if collapsed and new - repeated > MEMO_FLOOR_NS:
        reason = f"{new:.0f} ns a call on new inputs, {repeated:.0f} ns when they repeat"
        return [Finding(Flag.MEMOISED, reason, REPEATED_PHASES)]
    return []


def changed_inputs(
    framework: Framework, args: Sequence[object], inputs: Sequence[np.ndarray], declared: Iterable[int]
) -> list[Finding]:
    """Judge whether the calls left their inputs alone.

    Args:
        framework: reads the placed arguments.
        args: the placed arguments, after the calls.
        inputs: what they held before.
        declared: positions that the kernel says it consumes.

    Returns:
        A finding per input that changed or is gone without being declared.
    """
    found = []
    for position, (arg, before) in enumerate(zip(args, inputs, strict=True)):
        if position in set(declared):
            continue
        try:
            after = framework.host(arg)
        except RuntimeError:
            found.append(Finding(Flag.MUTATED, f"input {position} was consumed, and the kernel does not declare it"))
            continue
        if not np.array_equal(after, before, equal_nan=before.dtype.kind in "fc"):
            found.append(Finding(Flag.MUTATED, f"input {position} was overwritten, and the kernel does not declare it"))
    return found


def roofline(elapsed_ns: float, floor_ns: float) -> list[Finding]:
    """Judge a steady time against the least time that the machine needs for the declared work.

    Args:
        elapsed_ns: steady nanoseconds per call.
        floor_ns: least nanoseconds by the measured roofline.

    Returns:
        A finding when the timing is faster than the machine can be.
    """
    if elapsed_ns * FASTER_THAN_ROOFLINE >= floor_ns:
        return []
    reason = f"{elapsed_ns:.3g} ns a call, but the declared work takes this machine at least {floor_ns:.3g} ns"
    return [Finding(Flag.DEAD_WORK, reason)]


def spread(per_call_ns: Sequence[float], phase: Phase) -> list[Finding]:
    """Judge the spread of samples.

    Args:
        per_call_ns: nanoseconds per call of every sample of every round.
        phase: their phase.

    Returns:
        A finding when the interquartile range is too large a share of the median.
    """
    if len(per_call_ns) < 4:
        return []
    low, middle, high = statistics.quantiles(per_call_ns, n=4)
    share = (high - low) / middle
    if share <= NOISY_SPREAD:
        return []
    return [Finding(Flag.NOISY, f"interquartile range {share:.0%} of the median, above {NOISY_SPREAD:.0%}", (phase,))]


def contended(cpu_share: float, steal_share: float | None) -> list[Finding]:
    """Judge whether the process was let run on the host's processor.

    Args:
        cpu_share: processor time over wall time in the steady loop.
        steal_share: share of time the hypervisor kept from this machine meanwhile; None where unknown.

    Returns:
        A finding when either says that others ran instead.
    """
    if cpu_share < LEAST_CPU_SHARE:
        reason = f"the process got {cpu_share:.0%} of the wall time as processor time"
        return [Finding(Flag.CONTENDED, reason, REPEATED_PHASES)]
    if steal_share is not None and steal_share > STEAL_SHARE:
        return [Finding(Flag.CONTENDED, f"the hypervisor kept {steal_share:.0%} of processor time", REPEATED_PHASES)]
    return []
