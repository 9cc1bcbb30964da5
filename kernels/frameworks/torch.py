"""PyTorch: eager, compiled by torch.compile, and TorchScript; complete on return on the host, asynchronous on a GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from kernels.case import Backend, Case
from kernels.devices import unusable
from kernels.errors import UnavailableError
from kernels.frameworks import torch_script
from kernels.frameworks.framework import Framework, Program
from kernels.frameworks.torch_derived import derived
from kernels.frameworks.torch_inductor import Inductor, prepare
from kernels.phase import Phase
from kernels.spec import Function, Kernel, dtype_named, is_extension

_CALLED = (Phase.STARTUP, Phase.TRANSFER, Phase.FIRST_CALL, Phase.STEADY)

_DEVICES = {Backend.CPU: "cpu", Backend.GPU: "cuda"}


class Torch(Framework):
    """PyTorch on one device."""

    NAME = "torch"
    # Capture and compilation nest within the first call of what torch.compile gives: neither is a phase of its own. A
    # TorchScript trace holds the shapes that it was made with: it has no call at another size.
    MODES: ClassVar = {
        "eager": _CALLED,
        "compile": (*_CALLED, Phase.RELOAD, Phase.RETRACE),
        "script": (*_CALLED, Phase.TRACE),
    }
    MODULE = "torch"
    DISTRIBUTIONS = ("torch", "triton")
    INSTALL = "pip install torch (README: how to get it without CUDA)"
    PRELOAD = ("numpy", "numpy.random", "torch", "torch._dynamo", "torch._inductor.compile_fx")
    BACKENDS = (Backend.CPU, Backend.GPU)
    DERIVATIVES = (0, 1, 2)
    EXTENSION_DTYPES = True
    ARRAY = True
    SHAPE_COMPILES: ClassVar = {"compile": 1}

    def __init__(self, backend: Backend, dtype: str, cache_dir: str | None = None) -> None:
        super().__init__(backend, dtype, cache_dir)
        try:
            import torch
        except ImportError as error:
            raise UnavailableError(f"torch cannot be imported ({error}); {self.INSTALL}") from error
        self._torch, self._backend = torch, backend
        self._device = torch.device(_DEVICES[backend])
        if backend is Backend.GPU and not torch.cuda.is_available():
            raise unusable(self.NAME, backend, RuntimeError(f"torch {torch.__version__} sees none"))
        # The fork server may have read another count, and no pool of threads has been started by it.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads()))
        self._cache_dir = cache_dir
        self._inductor: Inductor | None = None

    @classmethod
    def preload(cls) -> None:
        """Compile a function of no kernel: what a process's first compilation pays once is many times the rest."""
        prepare()

    @classmethod
    def phases(cls, mode: str, backend: Backend) -> tuple[Phase, ...]:
        """Add what only asynchronous calls have: on the host, PyTorch's calls return when they are complete."""
        asynchronous = (Phase.PIPELINED, Phase.ENQUEUE) if backend is Backend.GPU else ()
        return super().phases(mode, backend) + asynchronous

    @classmethod
    def opened(cls) -> bool:
        """Ask whether the GPU is initialised; the host needs no opening."""
        torch = sys.modules.get("torch")
        return torch is not None and bool(torch.cuda.is_initialized())

    def first_program(self) -> None:
        """Run a sum of no kernel: a device that opens may still not compute."""
        try:
            self._wait(self._torch.ones(2, device=self._device).sum())
        except RuntimeError as error:
            raise unusable(self.NAME, self._backend, error) from error

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Take the kernel's own form or bind the body to torch, derive it, and compile it as the mode says.

        Gradients stay switched on, as in a fresh interpreter: inputs that ask for none record nothing, and a kernel
        may well take a gradient itself, which ``inference_mode`` would forbid.
        """
        build = kernel.builder(self.NAME, case.mode)
        function: Any = build() if build else _bound(kernel, self._torch)
        if case.mode == "script":
            return torch_script.program(
                function, build is not None, kernel.differentiable, case.derivative, self.events
            )
        plain = getattr(function, "_torchdynamo_orig_callable", function)
        if case.derivative:
            function = plain = derived(plain, kernel.differentiable, case.derivative)
        if case.mode == "eager":
            return Program(plain)
        self._inductor = Inductor(self.events, self._cache_dir, on_host=self._backend is Backend.CPU)
        # Every size gets a program of its own, as the first one does by default too: with the default, a second size
        # makes one for any size, and the rows of a kernel would depend on what was called before.
        compiled = function if function is not plain else self._torch.compile(function, dynamic=False)
        return Program(compiled, compiled=self._inductor.describe)

    def fallbacks(self) -> list[str]:
        """Say where torch.compile left the interpreter to do the work."""
        return self._inductor.fallbacks() if self._inductor else []

    def close(self) -> None:
        """Remove the compiler's private folder."""
        if self._inductor:
            self._inductor.close()

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Copy arrays into tensors of PyTorch's own memory, on the device."""
        placed = tuple(self._tensor(x).clone().to(self._device) for x in inputs)
        return tuple(self._wait(placed))

    def _tensor(self, x: np.ndarray) -> Any:
        if not is_extension(x.dtype.name):
            return self._torch.from_numpy(np.require(x, requirements=["C", "W"]))
        # PyTorch reads no dtype that NumPy lacks, but it can take integers for what their bits mean.
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
        return self._torch.from_numpy(bits).view(getattr(self._torch, x.dtype.name))

    def touch(self, args: tuple[Any, ...]) -> None:
        """Read every input once; a copy is the operation that every dtype has."""
        for x in args:
            x.clone()

    def waiter(self, output: Any) -> Callable[[Any], Any] | None:
        """Wait for the GPU."""
        return self._wait if self._backend is Backend.GPU else None

    def _wait(self, output: Any) -> Any:
        if self._backend is Backend.GPU:
            self._torch.cuda.synchronize()
        return output

    def host(self, leaf: Any) -> np.ndarray:
        """Give a tensor's values; a dtype that NumPy lacks comes as ml_dtypes' own."""
        if not isinstance(leaf, self._torch.Tensor):
            return np.asarray(leaf)
        values = leaf.detach().resolve_conj().resolve_neg().cpu()
        name = self.dtype_of(leaf)
        if not is_extension(name):
            return np.asarray(values.numpy())
        bits = values.contiguous().view(getattr(self._torch, f"int{8 * values.itemsize}"))
        return np.asarray(bits.numpy()).view(dtype_named(name))

    def backend_of(self, leaf: Any) -> str:
        """Read the tensor's own device; a leaf that is no tensor lives on the host."""
        if not isinstance(leaf, self._torch.Tensor):
            return "host"
        return "gpu" if leaf.device.type == "cuda" else str(leaf.device.type)

    def dtype_of(self, leaf: Any) -> str:
        """Read the dtype of the tensor itself."""
        dtype = getattr(leaf, "dtype", None)
        return str(dtype).removeprefix("torch.") if dtype is not None else type(leaf).__name__

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """Give what decides the arithmetic, and what the device is."""
        torch, gpu = self._torch, self._backend is Backend.GPU
        properties = torch.cuda.get_device_properties(self._device) if gpu else None
        return {
            "device_kind": properties.name if properties else "cpu",
            "device_memory_nbytes": properties.total_memory if properties else None,
            "torch_threads": torch.get_num_threads(),
            "torch_capability": torch.backends.cpu.get_cpu_capability(),
            "torch_grad_enabled": torch.is_grad_enabled(),
            "torch_mkldnn": torch.backends.mkldnn.is_available(),
            "matmul_precision": torch.get_float32_matmul_precision(),
        }

    def device_peak_nbytes(self) -> int | None:
        """Read the allocator's own count."""
        return int(self._torch.cuda.max_memory_allocated()) if self._backend is Backend.GPU else None


def _bound(kernel: Kernel, torch: Any) -> Function:
    body = kernel.array
    if body is None:
        raise LookupError(f"{kernel.name} has no torch implementation")
    return lambda *args: body(torch, *args)


ADAPTER = Torch
