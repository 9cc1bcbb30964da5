"""Numba: functions compiled by ``njit``, on the host, complete when they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from kernels.case import Backend, Case
from kernels.errors import UnavailableError
from kernels.frameworks import llvm
from kernels.frameworks.framework import Compiled, Framework, Program
from kernels.phase import Phase
from kernels.spec import Function, Kernel


class Numba(Framework):
    """Numba on the host."""

    NAME = "numba"
    MODES: ClassVar = {
        "njit": (
            Phase.STARTUP,
            Phase.COMPILE,
            Phase.FIRST_CALL,
            Phase.RELOAD,
            Phase.RETRACE,
            Phase.STEADY,
        )
    }
    MODULE = "numba"
    DISTRIBUTIONS = ("numba", "llvmlite")
    INSTALL = "pip install numba"
    PRELOAD = ("numpy", "numpy.random", "numba", "numba.core.event")
    # Numba specialises on dtype and rank, not on lengths.
    SHAPE_COMPILES: ClassVar = {"njit": 0}

    def __init__(self, backend: Backend, dtype: str, cache_dir: str | None = None) -> None:
        super().__init__(backend, dtype, cache_dir)
        try:
            import numba
            import numba.core.event
        except ImportError as error:
            raise UnavailableError(f"numba cannot be imported ({error}); {self.INSTALL}") from error
        self._numba = numba
        self._cached = cache_dir is not None
        self._jitted: Any = None
        numba.config.DISABLE_JIT = 0
        if cache_dir is not None:
            numba.config.CACHE_DIR = cache_dir
        else:
            _forget_caches()
        numba.core.event.register("numba:compile", _counter(numba.core.event.Listener, self))

    @classmethod
    def preload(cls) -> None:
        """Compile a function of no kernel: four fifths of a process's first compilation are one-time registries."""
        import numba

        numba.njit(lambda x: x)(np.zeros(1))

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Compile anew whatever the kernel's form: a decorator's own ``cache=True`` would make ``compile`` a reload."""
        build = kernel.builder(self.NAME, case.mode)
        if build is None:
            raise LookupError(f"{kernel.name} has no numba implementation")
        function: Any = build()
        options: dict[str, Any] = {}
        if hasattr(function, "py_func"):
            options = {k: v for k, v in function.targetoptions.items() if k not in ("nopython", "cache")}
            function = function.py_func
        jitted = self._jitted = self._numba.njit(cache=self._cached, **options)(function)
        return Program(jitted, ((Phase.COMPILE, self._compile(jitted)),), lambda: _compiled(jitted))

    def _compile(self, jitted: Any) -> Callable[[tuple[Any, ...]], object]:
        typeof = self._numba.typeof

        def compile_signature(args: tuple[Any, ...]) -> object:
            result = jitted.compile(tuple(typeof(x) for x in args))
            if self._cached:
                hits = sum(jitted.stats.cache_hits.values())
                self.events.cache_hits += hits
                self.events.cache_misses += sum(jitted.stats.cache_misses.values())
            return result

        return compile_signature

    def dtype_of(self, leaf: Any) -> str:
        """Read the dtype; a scalar float comes back as Python's own, so the compiled signature tells its width."""
        if isinstance(leaf, float) and self._jitted is not None and self._jitted.nopython_signatures:
            returned = self._jitted.nopython_signatures[-1].return_type
            widths = {str(t) for t in getattr(returned, "types", (returned,)) if str(t).startswith("float")}
            if len(widths) == 1:
                return widths.pop()
        return super().dtype_of(leaf)

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Copy arrays; those without dimensions become scalars, as Numba's users pass them."""
        return tuple(x[()] if x.ndim == 0 else x.copy() for x in inputs)


def _forget_caches() -> None:
    """Have no persistent cache read or written in this process: what a kernel calls may be decorated to use one."""
    from numba.core.caching import Cache

    Cache.load_overload = lambda *_: None
    Cache.save_overload = lambda *_: None


def _counter(listener: Any, framework: Framework) -> Any:
    """Count compilations of every dispatcher in the process, those that a kernel makes for itself included."""

    class Counter(listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            framework.events.compiles += 1

        def on_end(self, event: Any) -> None:
            pass

    return Counter()


def _compiled(jitted: Function) -> Compiled | None:
    text = "\n".join(jitted.inspect_llvm().values())  # type: ignore[attr-defined]
    function = llvm.entry(text)
    if function is None:
        return Compiled(text=text) if text else None
    return Compiled(text, parameters=llvm.arguments_read(function), operations=llvm.operations(function))


ADAPTER = Numba
