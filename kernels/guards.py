"""Does this timing mean what it says? Each guard gives a reason not to trust an ``ok``."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kernels.clocks import Clocks
from kernels.frameworks.framework import Events, Framework
from kernels.phase import REPEATED, Phase
from kernels.spec import is_floating, leaves


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
    WARM = "warm"


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

FASTER_THAN_ROOFLINE = 2.0
"""A timing may beat the measured roofline by this factor, for what the roofline itself missed of the machine."""

FRAMEWORK_MODULES = frozenset({"cupy", "jax", "numba", "tensorflow", "torch"})
"""Modules that compute; a case of another framework that loads one of them has its work done there."""

OWN_IMPORTS = {"tensorflow": frozenset({"jax"}), "torch": frozenset({"jax"})}
"""What a framework may load for reasons of its own: parts of both look whether there is a JAX, and compute nothing."""

NOISY_SPREAD = 0.3
"""Interquartile range over median of the steady samples, above which they are noisy."""

LEAST_CPU_SHARE = 0.8
"""Processor time over wall time of a steady loop on the host, below which the process was not let run."""

STEAL_SHARE = 0.05
"""Share of processor time that the hypervisor kept, above which the machine was contended."""


def inputs(drawn: Sequence[np.ndarray], again: Sequence[np.ndarray]) -> list[Finding]:
    """Judge the inputs themselves: what is the same in every run can be computed before the clock.

    It sees two draws. Inputs that vary a little and matter little pass; the program's own guard is for those.

    Args:
        drawn: the inputs of the case.
        again: inputs drawn with another seed.

    Returns:
        A finding where there are no inputs, where no draw differs from another, or where one holds a single value.
    """
    if not drawn:
        return [
            Finding(Flag.CONSTANT_INPUTS, "the kernel takes no input: all of its work may be done before the clock")
        ]
    flat = [
        f"input {position} holds one value {x.size} times"
        for position, x in enumerate(drawn)
        if is_floating(x.dtype) and x.size > 1 and bool((x == x.flat[0]).all())
    ]
    if not flat and all(np.array_equal(x, y) for x, y in zip(drawn, again, strict=True)):
        flat = ["the inputs are the same whatever the seed"]
    return [Finding(Flag.CONSTANT_INPUTS, "; ".join(flat))] if flat else []


def answers(expected: Sequence[np.ndarray], again: Sequence[np.ndarray]) -> list[Finding]:
    """Judge whether the answer depends on the inputs, by the reference's answers to two draws.

    Args:
        expected: the reference's outputs for the inputs of the case.
        again: its outputs for inputs drawn with another seed.

    Returns:
        A finding when every output is the same floating values. Answers in integers may well agree by chance.
    """
    if not all(is_floating(x.dtype) and np.array_equal(x, y) for x, y in zip(expected, again, strict=True)):
        return []
    return [Finding(Flag.CONSTANT_INPUTS, "other inputs have the same answer: nothing depends on the inputs")]


def device(framework: Framework, output: object, backend: str) -> list[Finding]:
    """Judge where the outputs live and what they are.

    An output of a foreign type may be a promise, whose work is done when the harness looks and not when it times. Work
    that was done on another device, or by another thread, and brought back before the call returned is not seen.

    Args:
        framework: reads an output's device from the output.
        output: what the kernel returned.
        backend: what the case says.

    Returns:
        Findings when any leaf lives elsewhere, or is an array neither of the framework nor of NumPy.
    """
    found = []
    places = {framework.backend_of(leaf) for leaf in leaves(output)}
    if not places <= {backend}:
        reason = f"outputs live on {', '.join(sorted(places))}, the case says {backend}"
        found.append(Finding(Flag.FALLBACK, reason))
    own = {"builtins", "numpy", framework.MODULE, f"{framework.MODULE}lib"}
    foreign = {type(leaf).__name__ for leaf in leaves(output) if type(leaf).__module__.partition(".")[0] not in own}
    if foreign:
        reason = f"outputs are {', '.join(sorted(foreign))}, which may be computed later: return arrays"
        found.append(Finding(Flag.FALLBACK, reason))
    return found


def foreign(framework: str, imported: Collection[str], opened: Collection[str]) -> list[Finding]:
    """Judge what a kernel imported or opened: another framework's module or device says that the work was done there.

    What the kernel's file imports at its top is no sign, since one file may hold the forms of every framework. A
    device that was opened is one, of the frameworks that tell: JAX and TensorFlow, and PyTorch of a GPU.

    Args:
        framework: the case's framework.
        imported: modules that were loaded while the kernel was built and called.
        opened: frameworks that opened a device meanwhile.

    Returns:
        A finding when another framework is among them.
    """
    found = FRAMEWORK_MODULES.intersection(imported) - OWN_IMPORTS.get(framework, frozenset())
    others = sorted(found.union(opened) - {framework})
    if not others:
        return []
    return [Finding(Flag.FALLBACK, f"the kernel of {framework} computes with {', '.join(others)}")]


def recompiled(events: Events, phase: Phase) -> list[Finding]:
    """Judge the events inside a timed loop.

    Args:
        events: what the framework reported between the loop's begin and end.
        phase: the loop's phase.

    Returns:
        A finding when anything was compiled or lowered in it. Compilers that the framework does not report go unseen.
    """
    if events.compiles == 0 and events.lowerings == 0:
        return []
    reason = f"{events.compiles} compilations and {events.lowerings} lowerings inside the timed {phase.value} loop"
    return [Finding(Flag.RECOMPILED, reason, (phase,))]


def compiled_late(events: Events) -> list[Finding]:
    """Judge the events between the compile phase and the steady loop.

    Args:
        events: what the framework reported in the first calls after ahead-of-time compilation.

    Returns:
        A finding for ``compile`` when these calls compiled more; the steady loop may be sound all the same.
    """
    if not events.compiles:
        return []
    reason = f"{events.compiles} more programs were compiled by the first calls, after the compile phase"
    return [Finding(Flag.RECOMPILED, reason, (Phase.COMPILE,))]


def stored(events: Events, phase: Phase) -> list[Finding]:
    """Judge whether a cold compilation was one.

    Args:
        events: what the framework reported during the phase.
        phase: the phase.

    Returns:
        A finding when a program came from a persistent cache that the kernel has switched on.
    """
    if not events.cache_hits or phase not in (Phase.COMPILE, Phase.FIRST_CALL, Phase.RETRACE):
        return []
    reason = f"{events.cache_hits} programs came from a persistent cache, none was compiled for them"
    return [Finding(Flag.MEMOISED, reason, (phase,))]


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

    Fewer than four samples say nothing, and what alternates within a sample's inner calls is averaged out.

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

    A kernel that waits, or has another process work for it, looks the same. One of several threads that was kept from
    running is not seen, as long as all of them together got four fifths of one processor.

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


def throttled(before: Clocks, after: Clocks) -> list[Finding]:
    """Judge whether heat or power held the processor or the device back.

    Args:
        before: the clocks before the steady loop.
        after: the clocks right after it, while the processor that ran is still at its speed.

    Returns:
        A finding when throttle counts rose, a clock fell below its base, or the driver says so.
    """
    reasons = []
    if before.cpu_throttles is not None and after.cpu_throttles is not None:
        rose = after.cpu_throttles - before.cpu_throttles
        if rose > 0:
            reasons.append(f"the processors were held back by heat {rose} times during the loop")
    if after.cpu_mhz is not None and after.cpu_base_mhz is not None and after.cpu_mhz < 0.9 * after.cpu_base_mhz:
        reasons.append(f"the processor ran at {after.cpu_mhz:.0f} MHz, below its base of {after.cpu_base_mhz:.0f}")
    if after.slowdowns():
        clock = f" at {after.gpu_mhz:.0f} of {after.gpu_max_mhz:.0f} MHz" if after.gpu_mhz and after.gpu_max_mhz else ""
        reasons.append(f"the device ran{clock}: {', '.join(after.slowdowns())}")
    return [Finding(Flag.THROTTLED, reason, REPEATED_PHASES) for reason in reasons]
