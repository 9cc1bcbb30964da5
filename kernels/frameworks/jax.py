"""JAX: eager and jit, on any backend, asynchronous."""

from __future__ import annotations

import functools
import operator
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kernels.case import Backend, Case
from kernels.device_trace import Interval, Line, Plane
from kernels.devices import require_driver, unusable
from kernels.errors import UnavailableError
from kernels.frameworks.framework import Compiled, Framework, Program
from kernels.phase import Phase
from kernels.spec import Function, Kernel, leaves

_PLATFORMS = {Backend.CPU: "cpu", Backend.GPU: "cuda", Backend.TPU: "tpu"}

_WIDE = frozenset({"float64", "int64", "uint64", "complex128"})
"""Dtypes that JAX narrows unless it is told not to."""

_COUNTED = {
    "/jax/core/compile/jaxpr_trace_duration": "traces",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowerings",
    "/jax/core/compile/backend_compile_duration": "compiles",
    "/jax/compilation_cache/cache_hits": "cache_hits",
    "/jax/compilation_cache/cache_misses": "cache_misses",
}


class Jax(Framework):
    """JAX on one device."""

    NAME = "jax"
    MODES: ClassVar = {
        "eager": (
            Phase.STARTUP,
            Phase.TRANSFER,
            Phase.FIRST_CALL,
            Phase.RETRACE,
            Phase.STEADY,
            Phase.PIPELINED,
            Phase.ENQUEUE,
        ),
        "jit": (
            Phase.STARTUP,
            Phase.TRANSFER,
            Phase.TRACE,
            Phase.LOWER,
            Phase.COMPILE,
            Phase.FIRST_CALL,
            Phase.RELOAD,
            Phase.RETRACE,
            Phase.STEADY,
            Phase.PIPELINED,
            Phase.ENQUEUE,
        ),
    }
    MODULE = "jax"
    DISTRIBUTIONS = ("jax", "jaxlib", "libtpu")
    INSTALL = "pip install jax"
    PRELOAD = ("numpy", "numpy.random", "jax", "jax.numpy", "jax.monitoring")
    BACKENDS = tuple(Backend)
    PROFILED = (Backend.GPU, Backend.TPU)
    DERIVATIVES = (0, 1, 2)
    EXTENSION_DTYPES = True
    ARRAY = True
    SHAPE_COMPILES: ClassVar = {"jit": 1}

    def __init__(self, backend: Backend, dtype: str, cache_dir: str | None = None) -> None:
        super().__init__(backend, dtype, cache_dir)
        try:
            import jax
            import jax.numpy as jnp
        except ImportError as error:
            raise UnavailableError(f"jax cannot be imported ({error}); {self.INSTALL}") from error
        self._jax, self._jnp, self._backend = jax, jnp, backend
        jax.config.update("jax_platforms", _PLATFORMS[backend])
        jax.config.update("jax_enable_x64", dtype in _WIDE)
        jax.config.update("jax_enable_compilation_cache", cache_dir is not None)
        if cache_dir is not None:
            jax.config.update("jax_compilation_cache_dir", cache_dir)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        if backend is Backend.GPU:
            require_driver(self.NAME)
        try:
            self._device = jax.devices(_PLATFORMS[backend])[0]
        except (RuntimeError, AssertionError) as error:
            # Where no GPU is visible, JAX fails by an assertion without words.
            raise unusable(self.NAME, backend, error) from error
        jax.monitoring.register_event_listener(self._count)
        jax.monitoring.register_event_duration_secs_listener(self._count_duration)

    @classmethod
    def opened(cls) -> bool:
        """Look into the module that keeps the backends; JAX has no public way that does not open them."""
        bridge = sys.modules.get("jax._src.xla_bridge")
        return bool(getattr(bridge, "_backends", None))

    def first_program(self) -> None:
        """Compile and run a function of no kernel.

        The first compilation of a process pays for dialects and passes whatever the kernel, and a device that opens
        may still not compute, as with libraries of another version.
        """
        try:
            placed = self._jax.device_put(np.ones((), np.float32), self._device)
            self._jax.jit(operator.pos)(placed).block_until_ready()
        except RuntimeError as error:
            raise unusable(self.NAME, self._backend, error) from error

    def profile(self, run: Callable[[], object]) -> list[Plane]:
        """Profile a block of calls with JAX's profiler and read the profile with JAX's own reader."""
        profiler = self._jax.profiler
        options = profiler.ProfileOptions()
        options.python_tracer_level = 0
        with tempfile.TemporaryDirectory(prefix="jitmatrix-profile-") as folder:
            profiler.start_trace(folder, profiler_options=options)
            try:
                run()
            finally:
                profiler.stop_trace()
            files = sorted(Path(folder).rglob("*.xplane.pb"))
            return [plane for file in files for plane in planes(profiler.ProfileData.from_file(str(file)))]

    def device_peak_nbytes(self) -> int | None:
        """Read the allocator's own count."""
        return _allocator(self._device, "peak_bytes_in_use")

    def _count(self, event: str, **_: Any) -> None:
        name = _COUNTED.get(event)
        if name is not None:
            setattr(self.events, name, getattr(self.events, name) + 1)

    def _count_duration(self, event: str, duration: float, **_: Any) -> None:
        self._count(event)
        if event in _COUNTED:
            self.events.seconds[_COUNTED[event]] = self.events.seconds.get(_COUNTED[event], 0.0) + duration

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Take the kernel's own form or bind the body to jax.numpy; decorated or not, the phases are the same."""
        build = kernel.builder(self.NAME, case.mode)
        if build is not None:
            function = build()
        elif kernel.array is not None:
            function = functools.partial(kernel.array, self._jnp)
        else:
            raise LookupError(f"{kernel.name} has no jax implementation")
        decorated = hasattr(function, "trace") and hasattr(function, "lower")
        if decorated and (case.derivative or case.mode == "eager"):
            function, decorated = getattr(function, "__wrapped__", function), False
        if case.derivative:
            function = derived(function, kernel.differentiable, case.derivative)
        if case.mode == "eager":
            return Program(function)
        jitted = function if decorated else self._jax.jit(function, donate_argnums=kernel.donates)
        stages = _Stages(jitted)
        return Program(
            jitted,
            ((Phase.TRACE, stages.trace), (Phase.LOWER, stages.lower), (Phase.COMPILE, stages.compile)),
            stages.describe,
        )

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Put copies on the device, committed there."""
        placed = tuple(self._jax.device_put(x, self._device, may_alias=False) for x in inputs)
        return tuple(self._jax.block_until_ready(placed))

    def waiter(self, output: Any) -> Callable[[Any], Any]:
        """Wait for one array by its own method, for any other structure over the whole tree."""
        if isinstance(output, self._jax.Array):
            return operator.methodcaller("block_until_ready")
        wait: Callable[[Any], Any] = self._jax.block_until_ready
        return wait

    def backend_of(self, leaf: Any) -> str:
        """Read the platform of the array's device; a leaf that is no JAX array lives on the host."""
        if not isinstance(leaf, self._jax.Array):
            return "host"
        platform = next(iter(leaf.devices())).platform
        return "gpu" if platform in ("cuda", "rocm") else str(platform)

    def dtype_of(self, leaf: Any) -> str:
        """Read the dtype of the array itself."""
        return str(getattr(leaf, "dtype", type(leaf).__name__))

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """Give what decides the arithmetic, and what the device is."""
        return {
            "device_kind": self._device.device_kind,
            "device_platform": self._device.platform,
            "device_memory_nbytes": _allocator(self._device, "bytes_limit"),
            "memory_preallocated": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower()
            not in ("false", "0"),
            "matmul_precision": str(self._jax.config.jax_default_matmul_precision or "default"),
            "x64": bool(self._jax.config.jax_enable_x64),
        }


def derived(function: Function, positions: tuple[int, ...], order: int) -> Function:
    """Differentiate the sum of a function's floating outputs.

    Args:
        function: the kernel, not compiled.
        positions: of the arguments by which it is differentiated.
        order: 1 for the sum and its gradient; 2 for the product of its Hessian with a direction, whose arrays follow
            the function's own arguments: forward over reverse, which keeps nothing for a second reverse pass.

    Returns:
        A function that returns ``(sum, gradients)`` for order 1, the products for order 2; one array for each position.
    """
    import jax
    import jax.numpy as jnp

    def objective(*args: Any) -> Any:
        floating = [leaf for leaf in leaves(function(*args)) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        return functools.reduce(operator.add, (jnp.sum(leaf) for leaf in floating))

    if order == 1:
        value_and_gradient: Function = jax.value_and_grad(objective, positions)
        return value_and_gradient

    def product(*args: Any) -> Any:
        args, along = args[: -len(positions)], args[-len(positions) :]

        def gradient(*moved: Any) -> Any:
            replaced = dict(zip(positions, moved, strict=True))
            return jax.grad(objective, positions)(*(replaced.get(at, x) for at, x in enumerate(args)))

        return jax.jvp(gradient, tuple(args[position] for position in positions), along)[1]

    return product


def planes(profile: Any) -> list[Plane]:
    """Turn what JAX's reader gives into plain planes.

    Args:
        profile: a ``jax.profiler.ProfileData``.

    Returns:
        Every plane with its lines and intervals; events without a length stand there too.
    """
    return [
        Plane(
            plane.name,
            tuple(
                Line(line.name, tuple(Interval(e.start_ns, e.duration_ns, e.name) for e in line.events))
                for line in plane.lines
            ),
        )
        for plane in profile.planes
    ]


class _Stages:
    """The stages of ahead-of-time compilation, each on what the one before it left."""

    def __init__(self, jitted: Function) -> None:
        self._jitted: Any = jitted
        self._traced: Any = None
        self._lowered: Any = None
        self._compiled: Any = None

    def trace(self, args: tuple[Any, ...]) -> object:
        self._traced = self._jitted.trace(*args)
        return self._traced

    def lower(self, args: tuple[Any, ...]) -> object:
        self._lowered = self._traced.lower()
        return self._lowered

    def compile(self, args: tuple[Any, ...]) -> object:
        self._compiled = self._lowered.compile()
        return self._compiled

    def describe(self) -> Compiled | None:
        if self._compiled is None:
            return None
        text = program_text(_told(self._compiled.as_text) or "")
        costs = _told(self._compiled.cost_analysis) or {}
        memory = _told(self._compiled.memory_analysis)
        return Compiled(
            text=text or None,
            parameters=_parameters(text),
            operations=_operations(costs),
            nbytes=_known(costs.get("bytes accessed")),
            peak_nbytes=_memory(memory),
        )


def program_text(text: str) -> str:
    """Take the lines of source out of a compiled program's text: who called it, and from where, is no part of it.

    Args:
        text: as XLA prints it; the places stand in tables before the program or in each instruction, by version.

    Returns:
        The same for the same program, whatever the folder of the checkout and the lines of the harness.
    """
    text = re.sub(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n?", "", text, flags=re.M)
    return re.sub(r' (?:stack_frame_id=\d+|source_\w+=(?:\d+|"[^"]*"))', "", text)


def _parameters(text: str) -> int | None:
    """Count the inputs of the entry computation; a folded program has none."""
    entry = re.search(r"^ENTRY .*?^}", text, re.MULTILINE | re.DOTALL)
    return len(re.findall(r"= \S+ parameter\(\d+\)", entry.group())) if entry else None


def _operations(costs: Mapping[str, float]) -> float | None:
    """Add what the compiler counts apart: a sine is an operation too, and a program without any has no entry."""
    flops, transcendentals = _known(costs.get("flops", 0.0)), _known(costs.get("transcendentals", 0.0))
    return flops + transcendentals if costs and flops is not None and transcendentals is not None else None


def _known(estimate: float | None) -> float | None:
    """Turn absent and negative estimates into None: the compiler says -1 where it does not know."""
    return float(estimate) if estimate is not None and estimate >= 0 else None


def _allocator(device: Any, name: str) -> int | None:
    """Read one figure of the device's allocator; the host and some plugins keep none."""
    value = (device.memory_stats() or {}).get(name)
    return None if value is None else int(value)


def _memory(analysis: Any) -> int | None:
    """Add the parts of a program's memory; without one of them there is no sum."""
    parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes", "generated_code_size_in_bytes")
    known = [size for part in parts if (size := _known(getattr(analysis, part, None))) is not None]
    return int(sum(known)) if len(known) == len(parts) else None


def _told(ask: Callable[[], Any]) -> Any:
    """Ask a compiled program about itself; a plugin may not implement that, and the program is no worse for it."""
    try:
        return ask()
    except RuntimeError:
        # Of JAX's runtime errors and of NotImplementedError it is the base.
        return None


ADAPTER = Jax
