"""The repeated phases of a case: what the calls are fed, the loops by the clock, and the device's own account."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from time import perf_counter_ns, process_time_ns

from kernels import clocks, guards, machine
from kernels.device_trace import DeviceTime, NoDeviceTimeError, device_time
from kernels.frameworks.framework import Events
from kernels.guards import Finding, Flag
from kernels.phase import Phase
from kernels.process import Process
from kernels.timing import Args, Loop, calibrate, sample, warm_up

HELD_NBYTES = 256 * 2**20
"""The most that pipelined outputs and fresh donated buffers may hold at once."""

COLD_COPIES = 2**16
COLD_S = 2.0
COPY_NBYTES = 2**12
"""The most copies of the inputs that a cold working set has, the most seconds that making them may take,
and the least memory that a copy is reckoned with: its objects cost more than a small input's bytes."""

PROFILED_CALLS = 64
PROFILED_GROUPS = 3
"""Calls in one profile at most, and profiles of a process: a profiler's buffers are finite, what is over is lost."""


def sample_loops(process: Process, loop: Loop, output_nbytes: int, staged: Events | None) -> None:
    """Warm up, then sample the steady, pipelined and enqueue loops, and the device where there is one.

    Args:
        process: the case's process.
        loop: the calls.
        output_nbytes: size of one output; pipelined calls hold many.
        staged: the framework's events after the stages of compilation; None where the mode has none.
    """
    sampling, framework = process.sampling, process.framework
    input_nbytes = sum(x.nbytes for x in process.inputs)
    fed = input_nbytes if process.kernel.donates else 0
    began = perf_counter_ns()
    process.fact(warmup_calls=warm_up(loop, sampling))
    steady_calls = 1
    variants = (
        (Phase.STEADY, loop.blocked, fed, 1.0),
        (Phase.PIPELINED, loop.pipelined, fed + output_nbytes, 0.25),
        (Phase.ENQUEUE, loop.enqueue, fed, 0.25),
    )
    for phase, timed, held, share in variants:
        if phase not in process.phases:
            continue
        most = max(1, HELD_NBYTES // held) if held else 2**30
        # Enqueued calls are waited for outside the clock: by their own clock, samples would last many times longer.
        n = steady_calls if phase is Phase.ENQUEUE else calibrate(timed, sampling, most, steady_calls)
        cool = clocks.read(process.case.backend, device=False)
        before, cpu, steal = framework.events.copy(), process_time_ns(), machine.processor_ticks()
        start = perf_counter_ns()
        if staged is not None and phase is Phase.STEADY:
            process.flag(guards.compiled_late(framework.events.since(staged)))
        samples = sample(timed, n, int(sampling.round_budget_ns * share), sampling.min_samples)
        wall = perf_counter_ns() - start
        events = framework.events.since(before)
        process.reading(phase, samples, n, events)
        process.flag(guards.recompiled(events, phase))
        if phase is Phase.STEADY:
            stolen = machine.steal_share(steal, machine.processor_ticks())
            process.fact(cpu_share=(process_time_ns() - cpu) / wall, steal_share=stolen)
            hot = clocks.read(process.case.backend)
            process.fact(**hot.facts())
            process.flag(guards.throttled(cool, hot))
            steady_calls = n
    if Phase.DEVICE in process.phases:
        process.fact(device_peak_nbytes=framework.device_peak_nbytes())
        _profile(process, loop, min(steady_calls, PROFILED_CALLS))
    process.called_ns += perf_counter_ns() - began


def _profile(process: Process, loop: Loop, n: int) -> None:
    """Read the device's own time of groups of n calls; where the profile does not tell it, say so and store nothing."""
    framework = process.framework
    before = framework.events.copy()
    groups: list[DeviceTime] = []
    try:
        for _ in range(PROFILED_GROUPS):
            # Made before the profile begins: what is copied to the device for a call is no part of the call.
            arguments = list(loop.feed(n))
            group = Loop(loop.call, loop.wait, lambda _, arguments=arguments: iter(arguments))  # type: ignore[misc]
            walls: list[int] = []
            planes = framework.profile(lambda group=group, walls=walls: walls.append(group.blocked(n)))  # type: ignore[misc]
            groups.append(device_time(planes, walls[0]))
        counts = sorted({group.kernels for group in groups})
        if len(counts) > 1:
            raise NoDeviceTimeError(f"equal groups of calls ran {counts} kernels: the profiler lost some")
    except NoDeviceTimeError as error:
        process.fact(device_absent=str(error))
        return
    events = framework.events.since(before)
    process.reading(Phase.DEVICE, [group.busy_ns for group in groups], n, events)
    process.flag(guards.recompiled(events, Phase.DEVICE))
    span_ns = statistics.median(group.span_ns for group in groups)
    process.fact(device_span_ns=span_ns / n, device_kernels=counts[0] / n)


def feed_of(process: Process, args: Args) -> tuple[Callable[[int], Iterator[Args]], Args]:
    """Choose the arguments of the calls: the same, fresh copies for a kernel that consumes them, or rotating ones.

    Args:
        process: the case's process.
        args: the placed inputs of the case.

    Returns:
        The feed, and arguments that calls are made on, to be looked at afterwards.
    """
    if process.kernel.donates:
        if process.sampling.cold:
            process.fact(cold_reached=False)
            _flag_warm(process, "the kernel consumes its inputs: those of a call, copied right before it, are not cold")
        # Every call's copies are gone after it; what the first call got shows what it did with the others.
        first, place = [args], process.framework.place
        return lambda n: iter([first.pop() if first else place(process.inputs) for _ in range(n)]), args
    if process.sampling.cold:
        held = _cold(process, args)
        rotating = itertools.cycle(held)
        return lambda n: itertools.islice(rotating, n), held[0]
    return lambda n: itertools.repeat(args, n), args


def _cold(process: Process, args: Args) -> list[Args]:
    """Copy the inputs until they lie beyond the caches, or memory or time forbids more; say how far that went."""
    nbytes, target = sum(x.nbytes for x in process.inputs), machine.working_set_beyond_caches()
    limit = process.sampling.memory_mb * 2**20 or machine.memory_available()
    most = min(COLD_COPIES, limit // 2 // max(COPY_NBYTES, nbytes))
    held, stop = [args], perf_counter_ns() + COLD_S * 1e9
    # Two at least, where memory allows: the last part of one input would be found in the caches by the next call.
    while len(held) < most and (len(held) < 2 or len(held) * nbytes < target) and perf_counter_ns() < stop:
        held.append(process.framework.place(process.inputs))
    reached = len(held) * nbytes
    caches = machine.last_level_cache_nbytes()
    cold = reached >= target and reached > caches
    process.fact(cold_nbytes=reached, cold_reached=cold)
    if not cold:
        part = "in part " if reached > caches else ""
        _flag_warm(process, f"cold inputs of {reached} bytes stay {part}within caches of {caches} bytes")
    return held


def _flag_warm(process: Process, reason: str) -> None:
    process.flag([Finding(Flag.WARM, reason, guards.REPEATED_PHASES)])
