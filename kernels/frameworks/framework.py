"""What the harness asks of a framework; the defaults are those of a library that computes on the host and at once."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kernels.case import Backend, Case
from kernels.device_trace import Plane
from kernels.phase import Phase
from kernels.spec import Function, Kernel, is_extension


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of running a framework.

    Attributes:
        framework: the adapter's name.
        name: such as ``jit``.
        phases: the phases that it can separate on every backend; ``Framework.phases`` adds those of one.
        adapter: the adapter's class.
    """

    framework: str
    name: str
    phases: tuple[Phase, ...]
    adapter: type[Framework]

    def refuses(self, kernel: Kernel, case: Case) -> str | None:
        """Say why a case cannot be had in this mode, whatever is installed.

        Args:
            kernel: the kernel.
            case: the cell.

        Returns:
            The reason, or None where the case can be had.
        """
        if case.backend not in self.adapter.BACKENDS:
            return f"{self.framework} runs on {', '.join(self.adapter.BACKENDS)} only"
        if case.derivative not in self.adapter.DERIVATIVES:
            return f"{self.framework} has no derivative of order {case.derivative}"
        if case.derivative and not kernel.differentiable:
            return f"{kernel.name} has no derivative"
        if case.derivative == 2 and kernel.linear:
            return f"{kernel.name} has no second derivative: it is linear"
        if case.derivative and not case.dtype.startswith(("float", "bfloat")):
            return f"{kernel.name} has no derivative in {case.dtype}"
        if self.adapter.DTYPES and case.dtype not in self.adapter.DTYPES:
            return f"{self.framework} computes in {', '.join(self.adapter.DTYPES)} only"
        if not self.adapter.EXTENSION_DTYPES and is_extension(case.dtype):
            return f"{self.framework} has no arithmetic in {case.dtype}"
        if kernel.builder(self.framework, self.name) is None and not (self.adapter.ARRAY and kernel.array):
            return f"{kernel.name} has no {self.framework} implementation"
        return self.adapter.refuses(kernel, case)


@dataclass(slots=True)
class Events:
    """What the framework itself reported since the process began: counts, and seconds where it tells them.

    Attributes:
        traces: functions traced to an intermediate form.
        lowerings: modules lowered.
        compiles: programs compiled or loaded by the backend.
        cache_hits: programs taken from a persistent cache.
        cache_misses: programs looked for in a persistent cache and not found.
        seconds: event name to its summed duration.
    """

    traces: int = 0
    lowerings: int = 0
    compiles: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def copy(self) -> Events:
        """Give the state of now, to be subtracted later."""
        return Events(
            self.traces, self.lowerings, self.compiles, self.cache_hits, self.cache_misses, dict(self.seconds)
        )

    def since(self, before: Events) -> Events:
        """Subtract an earlier state.

        Args:
            before: what ``copy`` gave.

        Returns:
            The events between the two.
        """
        return Events(
            self.traces - before.traces,
            self.lowerings - before.lowerings,
            self.compiles - before.compiles,
            self.cache_hits - before.cache_hits,
            self.cache_misses - before.cache_misses,
            {name: total - before.seconds.get(name, 0.0) for name, total in self.seconds.items()},
        )


@dataclass(frozen=True, slots=True)
class Compiled:
    """What is known of a compiled program; None where the framework does not tell.

    Attributes:
        text: the program's text.
        parameters: inputs that the program still reads.
        operations: the compiler's own estimate of its operations.
        nbytes: the compiler's own estimate of the bytes that it moves.
        peak_nbytes: the compiler's own estimate of the memory that a call needs.
        form: how the program was made, in a mode that has more than one way.
    """

    text: str | None = None
    parameters: int | None = None
    operations: float | None = None
    nbytes: float | None = None
    peak_nbytes: int | None = None
    form: str | None = None


@dataclass(slots=True)
class Program:
    """A kernel made ready in a mode, before anything is compiled.

    Attributes:
        call: what a user would call.
        stages: ahead-of-time stages in order, each a phase and what runs it on placed arguments.
        compiled: what is known of the program, once the stages ran or the first call was made.
    """

    call: Function
    stages: Iterable[tuple[Phase, Callable[[tuple[Any, ...]], object]]] = ()
    compiled: Callable[[], Compiled | None] = lambda: None


class Framework:
    """One framework in one process, on one backend, for one dtype.

    Making an instance imports the framework and opens the device. What the class says is known without either.
    """

    NAME: ClassVar[str]
    MODES: ClassVar[Mapping[str, tuple[Phase, ...]]]
    MODULE: ClassVar[str]
    """The module whose presence tells that the framework is installed."""
    DISTRIBUTIONS: ClassVar[tuple[str, ...]] = ()
    """The distributions whose versions are recorded."""
    INSTALL: ClassVar[str] = ""
    """The line that installs it."""
    PRELOAD: ClassVar[tuple[str, ...]] = ()
    """Modules that its fork server imports."""
    BACKENDS: ClassVar[tuple[Backend, ...]] = (Backend.CPU,)
    PROFILED: ClassVar[tuple[Backend, ...]] = ()
    """The backends on which its profiler tells the time on the device itself."""
    DERIVATIVES: ClassVar[tuple[int, ...]] = (0,)
    DTYPES: ClassVar[tuple[str, ...]] = ()
    """The dtypes that it computes in; empty takes any."""
    EXTENSION_DTYPES: ClassVar[bool] = False
    """Whether it computes in dtypes that NumPy lacks, such as bfloat16."""
    ARRAY: ClassVar[bool] = False
    """Whether a body over the array namespace serves it."""
    SHAPE_COMPILES: ClassVar[Mapping[str, int]] = {}
    """Mode to the number of compilations that a call at a new shape causes; absent where the number is open."""

    def __init__(self, backend: Backend, dtype: str, cache_dir: str | None = None) -> None:
        """Import the framework and open the device.

        Args:
            backend: where the arrays are to live.
            dtype: the case's dtype.
            cache_dir: persistent compilation cache; None compiles afresh, whatever the user's settings say.

        Raises:
            UnavailableError: the framework or the device is not there.
        """
        self.events = Events()

    @classmethod
    def preload(cls) -> None:
        """Run once in the fork server after the imports: one-time registries, and never an opened device."""

    @classmethod
    def phases(cls, mode: str, backend: Backend) -> tuple[Phase, ...]:
        """List the phases that can be told apart.

        Args:
            mode: such as ``jit``.
            backend: where the arrays live.

        Returns:
            The phases of the mode, and ``device`` where the profiler sees the device.
        """
        return cls.MODES[mode] + ((Phase.DEVICE,) if backend in cls.PROFILED else ())

    @classmethod
    def refuses(cls, kernel: Kernel, case: Case) -> str | None:
        """Say what else the framework cannot do, and can be known without importing it.

        Args:
            kernel: the kernel; it has an implementation.
            case: the cell.

        Returns:
            The reason, or None where the case can be had.
        """
        return None

    @classmethod
    def opened(cls) -> bool:
        """Tell whether the framework has opened a device in this process, without opening one."""
        return False

    @classmethod
    def installed(cls) -> bool:
        """Tell whether the framework can be imported, without importing it."""
        return importlib.util.find_spec(cls.MODULE) is not None

    @classmethod
    def versions(cls) -> dict[str, str]:
        """Give the version of each distribution that is installed."""
        found = {}
        for name in cls.DISTRIBUTIONS:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found

    def first_program(self) -> None:
        """Run the first trivial program on the device, so that a kernel's ``compile`` is its own.

        Raises:
            UnavailableError: the device is there, and does not work.
        """

    def profile(self, run: Callable[[], object]) -> Sequence[Plane]:
        """Profile a block of calls; asked only on a backend of ``PROFILED``.

        Args:
            run: makes the calls, and waits for them.

        Returns:
            The planes of the profile, those of the host included.
        """
        raise NotImplementedError(f"{self.NAME} has no profiler that sees a device")

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Make a kernel ready.

        Args:
            kernel: the kernel.
            case: names the mode and the derivative.

        Returns:
            A new program that nothing has been compiled for.
        """
        raise NotImplementedError

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Bring inputs to where the arrays live, and wait until they are there.

        Args:
            inputs: host arrays.

        Returns:
            What the program is called with; it shares no memory with the inputs.
        """
        return tuple(x.copy() for x in inputs)

    def touch(self, args: tuple[Any, ...]) -> None:
        """Read every input once, so that caches hold it as they would after a call.

        Args:
            args: placed arguments.
        """
        for x in args:
            np.asarray(x).sum()

    def waiter(self, output: Any) -> Callable[[Any], Any] | None:
        """Choose the cheapest call that waits for every leaf of outputs of this structure.

        Args:
            output: an output of the program.

        Returns:
            A function that returns its argument once complete; None where calls return complete outputs.
        """
        return None

    def host(self, leaf: Any) -> np.ndarray:
        """Give an output leaf as a NumPy array in its own dtype.

        Args:
            leaf: the output leaf.

        Returns:
            The array.
        """
        return np.asarray(leaf)

    def backend_of(self, leaf: Any) -> str:
        """Read where an output lives from the output itself.

        Args:
            leaf: the output leaf.

        Returns:
            cpu, gpu, tpu, or the platform's own name.
        """
        return Backend.CPU.value

    def dtype_of(self, leaf: Any) -> str:
        """Read an output's dtype from the output itself.

        Args:
            leaf: the output leaf.

        Returns:
            The dtype's name.
        """
        return self.host(leaf).dtype.name

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """Give settings of the framework that bear on a timing, such as matmul precision."""
        return {}

    def fallbacks(self) -> list[str]:
        """Say where calls were not computed as the mode says, by the framework's own account; asked after the loops.

        Returns:
            A reason for each, in words; empty where there is none, or the framework tells of none.
        """
        return []

    def close(self) -> None:
        """Remove what the framework left on disk for this process; asked once, at its end."""

    def device_peak_nbytes(self) -> int | None:
        """Read how much memory of the device this process has held at most.

        Returns:
            Bytes; None where the device does not tell, or is the host.
        """
        return None
