"""What a case's own process does: its phases, with every reading streamed as it is made."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from time import perf_counter_ns

from kernels import floors, guards, memo, program_guard
from kernels.assignment import Assignment, Role
from kernels.case import Backend
from kernels.discovery import find
from kernels.frameworks import frameworks
from kernels.frameworks.framework import Framework, Program
from kernels.guards import Finding, Flag
from kernels.loading import check_unchanged
from kernels.loops import feed_of, sample_loops
from kernels.phase import Phase
from kernels.process import Emit, Process
from kernels.spec import leaves
from kernels.timing import Args, Loop, collector_off


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
    with contextlib.closing(frameworks()[case.framework](case.backend, case.dtype, assignment.cache_dir)) as framework:
        _perform(assignment, framework, start, emit)


def _perform(assignment: Assignment, framework: Framework, start: int, emit: Emit) -> None:
    case = assignment.case
    framework.first_program()
    opened = perf_counter_ns()
    # After the settings of the case: what a user's file computes at its top must be computed under them.
    if case.source and case.source_sha256:
        check_unchanged(case.source, case.source_sha256)
    kernel = find(case.kernel, case.source)
    emit({"kind": "facts", "facts": framework.facts()})
    roles = {Role.STEADY: _steady, Role.FIRST_CALL: _first_call, Role.CACHE: _cache}
    with collector_off():
        process = Process(assignment, kernel, framework, emit)
        roles[assignment.role](process)
    process.fact(open_ns=opened - start, called_ns=process.called_ns)


def _first_call(process: Process) -> None:
    """Time the first call as a user meets it: everything at once."""
    args = process.place()
    program = process.framework.program(process.kernel, process.case)
    with process.clock(Phase.FIRST_CALL):
        output = process.complete(program.call(*args))
    problem = process.check(output)
    if problem:
        raise WrongOutputError(f"first call: {problem}")
    process.fact(output_hash=process.hash(output))


def _cache(process: Process) -> None:
    """Compile against a persistent cache: it fills on the first visit and is read on the second."""
    args = process.framework.place(process.inputs)
    program = process.framework.program(process.kernel, process.case)
    stages = dict(program.stages)
    for phase, stage in stages.items():
        if phase is Phase.COMPILE:
            with process.clock(Phase.RELOAD):
                stage(args)
        else:
            stage(args)
    if Phase.COMPILE in stages:
        output = process.complete(program.call(*args))
    else:
        # What is compiled by its first call is loaded again by its first call.
        with process.clock(Phase.RELOAD):
            output = process.complete(program.call(*args))
    problem = process.check(output)
    if problem:
        raise WrongOutputError(f"compiled against a persistent cache: {problem}")


def _steady(process: Process) -> None:
    """Time the stages of compilation, check the output, and sample steady calls."""
    # The process's kernel: derived, it draws other inputs and consumes none.
    framework, case, kernel = process.framework, process.case, process.kernel
    args = process.place()
    loaded, opened = set(sys.modules), _opened()
    program = framework.program(kernel, case)
    for phase, stage in program.stages:
        with process.clock(phase):
            stage(args)
    staged = framework.events.copy() if program.stages else None
    if program.stages:
        _describe(process, program, len(args))
    feed, fed = feed_of(process, args)
    (first_args,) = feed(1)
    output = process.complete(program.call(*first_args))
    problem = process.check(output)
    if problem:
        raise WrongOutputError(problem)
    if not program.stages:
        # What has no stage was compiled by that call.
        _describe(process, program, len(args))
    process.flag(guards.device(framework, output, case.backend.value))
    process.fact(
        output_dtype=framework.dtype_of(leaves(output)[0]), gc="collected, off", output_hash=process.hash(output)
    )
    loop = Loop(program.call, framework.waiter(output), feed)
    output_nbytes = sum(framework.host(leaf).nbytes for leaf in leaves(output))
    del output, first_args
    try:
        sample_loops(process, loop, output_nbytes, staged)
    finally:
        # When a call fails because the one before it consumed its input, the row says so.
        process.flag(guards.changed_inputs(framework, fed, process.inputs, kernel.donates))
    sound = _check_repeat(process, loop.last)
    process.flag([Finding(Flag.FALLBACK, reason) for reason in framework.fallbacks()])
    process.flag(guards.foreign(framework.MODULE, sys.modules.keys() - loaded, _opened() - opened))
    if process.first_round and sound:
        _probe(process, program, args)
    if Phase.RETRACE in process.phases:
        _retrace(process, program)


def _opened() -> set[str]:
    """Name the modules of the frameworks that have opened a device in this process."""
    return {adapter.MODULE for adapter in frameworks().values() if adapter.opened()}


def _describe(process: Process, program: Program, count: int) -> None:
    """Record what is known of the compiled program, and judge it by the number of inputs that the case has."""
    compiled = program.compiled()
    if compiled is not None:
        process.fact(
            program_hash=hashlib.sha256(compiled.text.encode()).hexdigest() if compiled.text else None,
            program_operations=compiled.operations,
            program_straight=program_guard.straight(compiled.text) if compiled.text else None,
            program_nbytes=compiled.nbytes,
            program_peak_nbytes=compiled.peak_nbytes,
            program_form=compiled.form,
        )
        if process.keep_text and compiled.text:
            process.emit({"kind": "text", "text": compiled.text})
        # A second derivative may need no more of the inputs than its direction, as that of a quadratic form.
        least = 1 if process.case.derivative == 2 else count
        process.flag(program_guard.judge(compiled, least, floors.declared_work(process.case), process.case.dtype))


def _check_repeat(process: Process, output: object) -> bool:
    problem = process.check(output)
    if problem:
        process.flag([Finding(Flag.MUTATED, f"a repeat's output is wrong, the first was right: {problem}")])
    return problem is None


def _probe(process: Process, program: Program, args: Args) -> None:
    """Call on inputs never seen: the answers must be theirs, and must not come from memory."""
    kernel, framework = process.kernel, process.framework
    inputs = process.draw(process.case.size, 1)
    placed = framework.place(inputs)
    loop = Loop(program.call, framework.waiter(None), lambda _: iter([placed]))
    elapsed_ns = loop.blocked(1)
    answer = process.answer_to(inputs)
    process.flag(guards.inputs(process.inputs, inputs) + guards.answers(process.answer.values, answer.values))
    # At once: a kernel may fill the same buffer again at the next call.
    problem = process.check(loop.last, answer)
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
        on_host=process.case.backend is Backend.CPU,
    )
    process.flag(memo.judge(trials))


def _retrace(process: Process, program: Program) -> None:
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
