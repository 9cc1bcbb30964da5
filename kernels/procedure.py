"""What a case's own process does: its phases, with every reading streamed as it is made."""

from __future__ import annotations

import hashlib
import itertools
import statistics
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np

from kernels import checking, clocks, guards, machine, memo, program_guard
from kernels.assignment import Assignment, Role
from kernels.device_trace import DeviceTime, NoDeviceTimeError, device_time
from kernels.discovery import find
from kernels.frameworks import frameworks
from kernels.frameworks.framework import Events, Framework, Program
from kernels.guards import Finding, Flag
from kernels.phase import Phase
from kernels.spec import Kernel, leaves
from kernels.timing import Args, Loop, calibrate, collector_off, sample, warm_up

Emit = Callable[[dict[str, Any]], None]
"""Sends one JSON record to the parent; what was sent survives the process."""

HELD_NBYTES = 256 * 2**20
"""The most that pipelined outputs, fresh donated buffers or a cold working set may hold at once."""

PROFILED_CALLS = 64
PROFILED_GROUPS = 3
"""Calls in one profile at most, and profiles of a process: a profiler's buffers are finite, what is over is lost."""


class WrongOutputError(Exception):
    """An output is not what the float64 reference says."""


def perform(assignment: Assignment, emit: Emit) -> None:
    """Measure an assignment in this process.

    Args:
        assignment: what to do.
        emit: takes readings, facts and flags as they are made.

    Raises:
        WrongOutputError: an output disagrees with the reference.
        UnavailableError: the framework or the device is not there.
        Exception: whatever the kernel raised.
    """
    case = assignment.case
    start = perf_counter_ns()
    framework = frameworks()[case.framework](case.backend, case.dtype, assignment.cache_dir)
    framework.first_program()
    opened = perf_counter_ns()
    # After the settings of the case: what a user's file computes at its top must be computed under them.
    kernel = find(case.kernel, case.source)
    emit({"kind": "facts", "facts": framework.facts()})
    roles = {Role.STEADY: _steady, Role.FIRST_CALL: _first_call, Role.CACHE: _cache}
    with collector_off():
        process = _Process(assignment, kernel, framework, emit)
        roles[assignment.role](process)
    process.fact(open_ns=opened - start, called_ns=process.called_ns)


class _Process:
    """What the roles share: the clock around one-time phases, the inputs, and the check."""

    def __init__(self, assignment: Assignment, kernel: Kernel, framework: Framework, emit: Emit) -> None:
        self.case, self.sampling, self.kernel = assignment.case, assignment.sampling, kernel
        self.keep_text, self.first_round = assignment.keep_text, assignment.round == 0
        self.framework, self.emit = framework, emit
        self.phases = framework.phases(self.case.mode, self.case.backend)
        self.inputs = self.draw(self.case.size)
        self.called_ns = 0
        self._expected: list[np.ndarray] | None = None

    @property
    def expected(self) -> list[np.ndarray]:
        """The reference's outputs for the inputs of the case."""
        if self._expected is None:
            self._expected = self.kernel.expected(self.inputs)
        return self._expected

    def draw(self, size: str, number: int = 0) -> tuple[np.ndarray, ...]:
        """Draw inputs; every framework gets the same for one kernel, size, dtype and number."""
        key = zlib.crc32(f"{self.case.kernel}/{size}/{self.case.dtype}".encode())
        rng = np.random.default_rng([self.sampling.seed, key, number])
        return self.kernel.inputs(rng, np.dtype(self.case.dtype), **self.kernel.sizes[size])

    def place(self) -> Args:
        if Phase.TRANSFER not in self.phases:
            return self.framework.place(self.inputs)
        with self.clock(Phase.TRANSFER):
            return self.framework.place(self.inputs)

    def clock(self, phase: Phase) -> _Clock:
        return _Clock(self, phase)

    def reading(self, phase: Phase, samples: list[int], inner_calls: int, events: Events) -> None:
        record = {"phase": phase.value, "samples": samples, "inner_calls": inner_calls, "events": asdict(events)}
        self.emit({"kind": "reading", **record})

    def fact(self, **facts: Any) -> None:
        self.emit({"kind": "facts", "facts": facts})

    def flag(self, findings: list[Finding]) -> None:
        for finding in findings:
            self.emit({"kind": "flag", **asdict(finding)})

    def check(self, output: object, expected: list[np.ndarray] | None = None) -> str | None:
        tolerance = self.kernel.tolerance[self.case.dtype]
        return checking.disagreement(self.framework, output, expected or self.expected, self.case.dtype, tolerance)

    def complete(self, output: Any) -> Any:
        """Wait for an output, whatever its structure."""
        wait = self.framework.waiter(output)
        return output if wait is None else wait(output)


class _Clock:
    """Times one block and stores it with the framework's own events."""

    def __init__(self, process: _Process, phase: Phase) -> None:
        self._process, self._phase = process, phase

    def __enter__(self) -> None:
        self._before = self._process.framework.events.copy()
        self._start = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        elapsed = perf_counter_ns() - self._start
        self._process.called_ns += elapsed
        if kind is None:
            events = self._process.framework.events.since(self._before)
            self._process.reading(self._phase, [elapsed], 1, events)
            self._process.flag(guards.stored(events, self._phase))


def _first_call(process: _Process) -> None:
    """Time the first call as a user meets it: everything at once."""
    args = process.place()
    program = process.framework.program(process.kernel, process.case)
    with process.clock(Phase.FIRST_CALL):
        output = process.complete(program.call(*args))
    problem = process.check(output)
    if problem:
        raise WrongOutputError(f"first call: {problem}")


def _cache(process: _Process) -> None:
    """Compile against a persistent cache: it fills on the first visit and is read on the second."""
    args = process.framework.place(process.inputs)
    program = process.framework.program(process.kernel, process.case)
    for phase, stage in program.stages:
        if phase is Phase.COMPILE:
            with process.clock(Phase.RELOAD):
                stage(args)
        else:
            stage(args)


def _steady(process: _Process) -> None:
    """Time the stages of compilation, check the output, and sample steady calls."""
    framework, case, kernel = process.framework, process.case, process.kernel
    args = process.place()
    loaded = set(sys.modules)
    program = framework.program(kernel, case)
    for phase, stage in program.stages:
        with process.clock(phase):
            stage(args)
    staged = framework.events.copy() if program.stages else None
    compiled = program.compiled()
    if compiled is not None:
        process.fact(
            program_hash=hashlib.sha256(compiled.text.encode()).hexdigest() if compiled.text else None,
            program_operations=compiled.operations,
            program_nbytes=compiled.nbytes,
            program_peak_nbytes=compiled.peak_nbytes,
        )
        if process.keep_text and compiled.text:
            process.emit({"kind": "text", "text": compiled.text})
        dims = kernel.sizes[case.size]
        work = kernel.work(np.dtype(case.dtype).itemsize, **dims)
        process.flag(program_guard.judge(compiled, len(args), work, case.dtype))
    feed, fed = _feed(process, args)
    (first_args,) = feed(1)
    output = process.complete(program.call(*first_args))
    problem = process.check(output)
    if problem:
        raise WrongOutputError(problem)
    process.flag(guards.device(framework, output, case.backend.value))
    process.fact(output_dtype=framework.dtype_of(leaves(output)[0]), gc="collected, off")
    loop = Loop(program.call, framework.waiter(output), feed)
    output_nbytes = sum(framework.host(leaf).nbytes for leaf in leaves(output))
    del output, first_args
    try:
        _sample_loops(process, loop, output_nbytes, staged)
    finally:
        # When a call fails because the one before it consumed its input, the row says so.
        process.flag(guards.changed_inputs(framework, fed, process.inputs, kernel.donates))
    sound = _check_repeat(process, loop.last)
    process.flag(guards.foreign(framework.MODULE, sys.modules.keys() - loaded))
    if process.first_round and sound:
        _probe(process, program, args)
    if Phase.RETRACE in process.phases:
        _retrace(process, program)


def _check_repeat(process: _Process, output: object) -> bool:
    problem = process.check(output)
    if problem:
        process.flag([Finding(Flag.MUTATED, f"a repeat's output is wrong, the first was right: {problem}")])
    return problem is None


def _sample_loops(process: _Process, loop: Loop, output_nbytes: int, staged: Events | None) -> None:
    sampling, framework = process.sampling, process.framework
    input_nbytes = sum(x.nbytes for x in process.inputs)
    fed = input_nbytes if process.kernel.donates else 0
    began = perf_counter_ns()
    process.fact(warmup_calls=warm_up(loop, sampling))
    profiled_calls = 1
    variants = (
        (Phase.STEADY, loop.blocked, fed, 1.0),
        (Phase.PIPELINED, loop.pipelined, fed + output_nbytes, 0.25),
        (Phase.ENQUEUE, loop.enqueue, fed, 0.25),
    )
    for phase, timed, held, share in variants:
        if phase not in process.phases:
            continue
        most = max(1, HELD_NBYTES // held) if held else 2**30
        n = calibrate(timed, sampling, most)
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
            profiled_calls = min(n, PROFILED_CALLS)
    if Phase.DEVICE in process.phases:
        process.fact(device_peak_nbytes=framework.device_peak_nbytes())
        _profile(process, loop, profiled_calls)
    process.called_ns += perf_counter_ns() - began


def _profile(process: _Process, loop: Loop, n: int) -> None:
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


def _feed(process: _Process, args: Args) -> tuple[Callable[[int], Iterator[Args]], Args]:
    """Choose the arguments of the calls: the same, fresh copies for a kernel that consumes them, or rotating ones.

    The second value is arguments that calls were made on, to be looked at afterwards.
    """
    if process.kernel.donates:
        # Every call's copies are gone after it; what the first call got shows what it did with the others.
        first, place = [args], process.framework.place
        return lambda n: iter([first.pop() if first else place(process.inputs) for _ in range(n)]), args
    if process.sampling.cold:
        nbytes = max(1, sum(x.nbytes for x in process.inputs))
        copies = min(4096, max(2, -(-machine.working_set_beyond_caches() // nbytes)))
        held = [process.framework.place(process.inputs) for _ in range(copies)]
        rotating = itertools.cycle(held)
        process.fact(cold_nbytes=copies * nbytes)
        return lambda n: itertools.islice(rotating, n), held[0]
    return lambda n: itertools.repeat(args, n), args


def _probe(process: _Process, program: Program, args: Args) -> None:
    """Call on inputs never seen: the answers must be theirs, and must not come from memory."""
    kernel, framework = process.kernel, process.framework
    inputs = process.draw(process.case.size, 1)
    placed = framework.place(inputs)
    loop = Loop(program.call, framework.waiter(None), lambda _: iter([placed]))
    elapsed_ns = loop.blocked(1)
    expected = kernel.expected(inputs)
    process.flag(guards.inputs(process.inputs, inputs) + guards.answers(process.expected, expected))
    # At once: a kernel may fill the same buffer again at the next call.
    problem = process.check(loop.last, expected)
    if problem and process.check(loop.last):
        raise WrongOutputError(f"on inputs drawn anew: {problem}")
    if problem:
        process.flag([Finding(Flag.MEMOISED, "the answer to new inputs is that to the inputs before")])
        return
    trials = memo.trials(
        framework,
        program.call,
        settled=process.inputs,
        placed=None if kernel.donates else args,
        draw=lambda number: process.draw(process.case.size, 2 + number),
        elapsed_ns=elapsed_ns,
    )
    process.flag(memo.judge(trials))


def _retrace(process: _Process, program: Program) -> None:
    """Time the first call at another size, in a process that is warm for this one."""
    sizes = list(process.kernel.sizes)
    if len(sizes) < 2:
        return
    other = sizes[(sizes.index(process.case.size) + 1) % len(sizes)]
    args = process.framework.place(process.draw(other))
    before = process.framework.events.copy()
    with process.clock(Phase.RETRACE):
        process.complete(program.call(*args))
    compiles = process.framework.events.since(before).compiles
    expected = process.framework.SHAPE_COMPILES.get(process.case.mode)
    process.fact(retrace_size=other)
    if expected is not None and compiles != expected:
        reason = f"a call at size {other} compiled {compiles} programs, {expected} were expected"
        process.flag([Finding(Flag.RECOMPILED, reason, (Phase.RETRACE,))])
