"""A case's process, as all of its roles see it: inputs, the clock around one-time phases, the check, the records."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import asdict
from time import perf_counter_ns
from typing import Any

import numpy as np

from kernels import derivatives, guards
from kernels.assignment import Assignment
from kernels.checking import Answer
from kernels.frameworks.framework import Events, Framework
from kernels.guards import Finding
from kernels.phase import Phase
from kernels.spec import Kernel, dtype_named, leaves
from kernels.timing import Args

Emit = Callable[[dict[str, Any]], None]
"""Sends one JSON record to the parent; what was sent survives the process."""


class Process:
    """What the roles share: the clock around one-time phases, the inputs, and the check."""

    def __init__(self, assignment: Assignment, kernel: Kernel, framework: Framework, emit: Emit) -> None:
        self.case, self.sampling = assignment.case, assignment.sampling
        self.kernel = derivatives.derived(kernel, self.case.derivative)
        self.keep_text, self.first_round = assignment.keep_text, assignment.round == 0
        self.framework, self.emit = framework, emit
        self.phases = framework.phases(self.case.mode, self.case.backend)
        self.inputs = self.draw(self.case.size)
        self.called_ns = 0
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """What is known of the answer for the inputs of the case."""
        if self._answer is None:
            self._answer = self.answer_to(self.inputs)
        return self._answer

    def answer_to(self, inputs: tuple[np.ndarray, ...]) -> Answer:
        """Find out about the answer for some inputs.

        Args:
            inputs: as ``draw`` gives them.

        Returns:
            What outputs are held against.
        """
        case = self.case
        tolerance = self.kernel.allowed(case.dtype, case.size, case.backend.value)
        return derivatives.answer(self.kernel, inputs, case.dtype, tolerance, case.derivative)

    def draw(self, size: str, number: int = 0) -> tuple[np.ndarray, ...]:
        """Draw inputs; every framework gets the same for one kernel, size, dtype, derivative and number.

        Args:
            size: size label.
            number: 0 for the inputs of the case, others for inputs never seen.

        Returns:
            Host arrays.
        """
        key = zlib.crc32(f"{self.case.kernel}/{size}/{self.case.dtype}".encode())
        rng = np.random.default_rng([self.sampling.seed, key, number])
        return self.kernel.inputs(rng, dtype_named(self.case.dtype), **self.kernel.sizes[size])

    def place(self) -> Args:
        """Place the inputs; by the clock where transfer is a phase.

        Returns:
            Placed arguments.
        """
        if Phase.TRANSFER not in self.phases:
            return self.framework.place(self.inputs)
        with self.clock(Phase.TRANSFER):
            return self.framework.place(self.inputs)

    def clock(self, phase: Phase) -> Clock:
        """Time a block that runs once.

        Args:
            phase: what it is.

        Returns:
            A context; the reading is sent when it ends without an error.
        """
        return Clock(self, phase)

    def reading(self, phase: Phase, samples: list[int], inner_calls: int, events: Events) -> None:
        """Send a reading.

        Args:
            phase: what was timed.
            samples: total nanoseconds of each sample.
            inner_calls: calls in each sample.
            events: what the framework reported meanwhile.
        """
        record = {"phase": phase.value, "samples": samples, "inner_calls": inner_calls, "events": asdict(events)}
        self.emit({"kind": "reading", **record})

    def fact(self, **facts: Any) -> None:
        """Send facts by name.

        Args:
            facts: plain values.
        """
        self.emit({"kind": "facts", "facts": facts})

    def flag(self, findings: list[Finding]) -> None:
        """Send what a guard found.

        Args:
            findings: none, one or several.
        """
        for finding in findings:
            self.emit({"kind": "flag", **asdict(finding)})

    def check(self, output: object, answer: Answer | None = None) -> str | None:
        """Compare an output with the reference.

        Args:
            output: what the kernel returned.
            answer: what it is held against; None takes the answer for the inputs of the case.

        Returns:
            The disagreement in words, or None.
        """
        return (answer or self.answer).disagreement(self.framework, output)

    def hash(self, output: object) -> str:
        """Digest an output, so that the answers of two processes can be told apart without being kept.

        Args:
            output: what the kernel returned.

        Returns:
            SHA-256 over dtype, shape and bytes of every leaf.
        """
        digest = hashlib.sha256()
        for leaf in leaves(output):
            values = np.ascontiguousarray(self.framework.host(leaf))
            digest.update(f"{values.dtype.name}{values.shape}".encode())
            digest.update(values.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def complete(self, output: Any) -> Any:
        """Wait for an output, whatever its structure.

        Args:
            output: what the kernel returned.

        Returns:
            The output, complete.
        """
        wait = self.framework.waiter(output)
        return output if wait is None else wait(output)


class Clock:
    """Times one block and stores it with the framework's own events."""

    def __init__(self, process: Process, phase: Phase) -> None:
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
