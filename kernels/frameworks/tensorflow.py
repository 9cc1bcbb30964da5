"""TensorFlow: eager, tf.function, and that compiled by XLA; complete on return on the host, asynchronous on a GPU."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kernels.case import Backend, Case
from kernels.devices import unusable
from kernels.errors import UnavailableError
from kernels.frameworks import tensorflow_program
from kernels.frameworks.framework import Compiled, Framework, Program
from kernels.phase import Phase
from kernels.spec import Function, Kernel, leaves

_CALLED = (Phase.STARTUP, Phase.TRANSFER, Phase.FIRST_CALL, Phase.STEADY)

_FUNCTION = (*_CALLED, Phase.TRACE, Phase.RETRACE)


class TensorFlow(Framework):
    """TensorFlow on one device."""

    NAME = "tensorflow"
    # A function compiled by XLA is compiled by its first call and in no other way: there is no compile phase.
    MODES: ClassVar = {"eager": _CALLED, "function": _FUNCTION, "xla": (*_FUNCTION, Phase.RELOAD)}
    MODULE = "tensorflow"
    DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "keras")
    INSTALL = "pip install tensorflow (or tensorflow-cpu)"
    PRELOAD = ("numpy", "numpy.random", "tensorflow")
    BACKENDS = (Backend.CPU, Backend.GPU)
    DERIVATIVES = (0, 1, 2)
    EXTENSION_DTYPES = True
    SHAPE_COMPILES: ClassVar = {"function": 0, "xla": 1}

    def __init__(self, backend: Backend, dtype: str, cache_dir: str | None = None) -> None:
        super().__init__(backend, dtype, cache_dir)
        # Read when XLA is first used, and not on import.
        os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={cache_dir}" if cache_dir else ""
        self._cache_dir = cache_dir
        self._traced: _Traced | None = None
        try:
            import tensorflow as tf
        except ImportError as error:
            raise UnavailableError(f"tensorflow cannot be imported ({error}); {self.INSTALL}") from error
        self._tf, self._backend = tf, backend
        threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        # An operation that the device does not have is an error, and not one that the host does instead.
        tf.config.set_soft_device_placement(False)
        try:
            gpus = tf.config.list_physical_devices("GPU") if backend is Backend.GPU else []
            tf.config.set_visible_devices(gpus[:1], "GPU")
            for gpu in gpus[:1]:
                tf.config.experimental.set_memory_growth(gpu, True)
            self._device = tf.config.list_logical_devices(backend.value.upper())[0]
        except (RuntimeError, ValueError, IndexError, tf.errors.OpError) as error:
            words = RuntimeError() if isinstance(error, IndexError) else error
            raise unusable(self.NAME, backend, words) from error
        # For the whole process: TensorFlow else takes the host for what a device lacks, whatever the line above says.
        tf.device(self._device.name).__enter__()
        _count_traces(self)

    @classmethod
    def refuses(cls, kernel: Kernel, case: Case) -> str | None:
        """Refuse what XLA compiles anew for every input: it takes a loop's inputs for constants there.

        A loop is known by its name in the kernel's form; one that stands elsewhere is seen by ``fallbacks``.
        """
        code = getattr(kernel.builder(cls.NAME, case.mode), "__code__", None)
        loops = tensorflow_program.names_in(code) & {"while_loop", "scan", "foldl"} if code else ()
        if case.mode != "xla" or case.derivative != 2 or not loops:
            return None
        return "XLA compiles the second derivative of a TensorFlow loop for one input's values, and anew for others"

    @classmethod
    def opened(cls) -> bool:
        """Look into the module that keeps the context; there is no public way that does not open it."""
        context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
        return context is not None and bool(context._initialized)

    @classmethod
    def phases(cls, mode: str, backend: Backend) -> tuple[Phase, ...]:
        """Add what only asynchronous calls have: on the host, TensorFlow's calls return when they are complete."""
        asynchronous = (Phase.PIPELINED, Phase.ENQUEUE) if backend is Backend.GPU else ()
        return super().phases(mode, backend) + asynchronous

    def first_program(self) -> None:
        """Run a function of no kernel, plain and by XLA: each pays once in a process, whatever the kernel."""
        tf = self._tf
        try:
            for compiled in (False, True):
                self._wait(tf.function(operator.neg, jit_compile=compiled)(tf.constant(1.0)))
        except tf.errors.OpError as error:
            raise unusable(self.NAME, self._backend, error) from error

    def program(self, kernel: Kernel, case: Case) -> Program:
        """Take the kernel's own form, undecorated, derive it, and decorate it as the mode says."""
        build = kernel.builder(self.NAME, case.mode)
        if build is None:
            raise LookupError(f"{kernel.name} has no tensorflow implementation")
        function: Any = build()
        # A function within the function would be traced apart, and its own jit_compile would make every mode XLA's.
        function = getattr(function, "python_function", function)
        if case.derivative:
            function = derived(function, kernel.differentiable, case.derivative)
        if case.mode == "eager":
            return Program(function)
        xla = case.mode == "xla"
        decorated = self._tf.function(function, jit_compile=xla)
        traced = self._traced = _Traced(decorated, xla, self._tf.errors.OpError)
        call = self._counting_cached(decorated) if self._cache_dir else decorated
        return Program(call, ((Phase.TRACE, traced.trace),), traced.describe)

    def _counting_cached(self, function: Function) -> Function:
        """Tell hits from misses by the files: TensorFlow counts the one and shows neither."""
        folder, known = Path(str(self._cache_dir)), self.events.compiles

        def call(*args: Any) -> Any:
            nonlocal known
            before = set(folder.glob("*"))
            output = function(*args)
            written = len(set(folder.glob("*")) - before)
            self.events.cache_misses += written
            self.events.cache_hits += self.events.compiles - known - written
            known = self.events.compiles
            return output

        return call

    def place(self, inputs: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Put copies on the device; on the host a tensor may share an array's memory, so it gets one of its own."""
        placed = tuple(self._tf.constant(x.copy()) for x in inputs)
        self._wait(placed)
        return placed

    def waiter(self, output: Any) -> Callable[[Any], Any] | None:
        """Wait for the GPU's stream; ``.numpy()`` would wait for one leaf, and copy it to the host."""
        return self._wait if self._backend is Backend.GPU else None

    def _wait(self, output: Any) -> Any:
        if self._backend is Backend.GPU:
            self._tf.test.experimental.sync_devices()
        return output

    def host(self, leaf: Any) -> np.ndarray:
        """Give a tensor's values; bfloat16 comes as NumPy's extension dtype."""
        return np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)

    def backend_of(self, leaf: Any) -> str:
        """Read the device type in the tensor's device name; a leaf without one lives on the host."""
        name = getattr(leaf, "device", "")
        return name.rpartition("device:")[2].partition(":")[0].lower() if isinstance(name, str) and name else "host"

    def dtype_of(self, leaf: Any) -> str:
        """Read the dtype of the tensor itself."""
        dtype = getattr(leaf, "dtype", None)
        return str(dtype.name) if dtype is not None else type(leaf).__name__

    def fallbacks(self) -> list[str]:
        """Tell of functions that were not run as graphs, and of graphs that have Python do their work."""
        if self._traced is None:
            return []
        found = [f"the traced function calls back into Python: {name}" for name in self._traced.python_calls()]
        if self._traced.constants:
            reason = "and compiles anew for others"
            found.append(f"XLA compiled the values of {self._traced.constants} inputs into the program, {reason}")
        if self._tf.config.functions_run_eagerly():
            found.append("the kernel had every tf.function run eagerly: tf.config.run_functions_eagerly")
        return found

    def device_peak_nbytes(self) -> int | None:
        """Read the allocator's own count; the host has none."""
        if self._backend is Backend.CPU:
            return None
        return int(self._tf.config.experimental.get_memory_info(self._device.name.partition("device:")[2])["peak"])

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """Give what decides the arithmetic, the threads, and what the device is."""
        config = self._tf.config
        details = {}
        if self._backend is Backend.GPU:
            details = config.experimental.get_device_details(config.get_visible_devices("GPU")[0])
        return {
            "device_kind": details.get("device_name", self._backend.value),
            "device_platform": self._device.device_type.lower(),
            "matmul_precision": "tf32" if config.experimental.tensor_float_32_execution_enabled() else "float32",
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
            "intra_op_threads": config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": config.threading.get_inter_op_parallelism_threads(),
        }


def derived(function: Function, positions: tuple[int, ...], order: int) -> Function:
    """Differentiate the sum of a function's floating outputs.

    Args:
        function: the kernel, not decorated.
        positions: of the arguments by which it is differentiated.
        order: 1 for the sum and its gradient; 2 for the product of its Hessian with a direction, whose tensors follow
            the function's own arguments. That is reverse over reverse, for ``tf.autodiff.ForwardAccumulator`` fails on
            ``tf.while_loop`` inside a ``tf.function``, and takes longer to trace.

    Returns:
        A function that returns ``(sum, gradients)`` for order 1, the products for order 2; a tensor for each position.
    """
    import tensorflow as tf

    def summed(output: Any) -> Any:
        return tf.add_n([tf.reduce_sum(leaf) for leaf in leaves(output) if leaf.dtype.is_floating])

    def differentiated(tape: Any, target: Any, sources: Any, **options: Any) -> Any:
        found = tape.gradient(target, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO, **options)
        # The gradient of a gather comes as slices, which no tape can follow and no caller wants.
        return tuple(tf.convert_to_tensor(gradient) for gradient in found)

    # AutoGraph would take most of the trace for what is no part of the kernel.
    objective_of, gradients = map(tf.autograph.experimental.do_not_convert, (summed, differentiated))

    def value_and_gradient(*args: Any) -> Any:
        sources = [args[position] for position in positions]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            objective = objective_of(function(*args))
        return objective, gradients(tape, objective, sources)

    if order == 1:
        return value_and_gradient

    def product(*args: Any) -> Any:
        args, along = args[: -len(positions)], args[-len(positions) :]
        sources = [args[position] for position in positions]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            _, first = value_and_gradient(*args)
        return gradients(tape, first, sources, output_gradients=list(along))

    return product


class _Traced:
    """The one stage that can be had ahead of a call, and what it tells of the program."""

    def __init__(self, function: Any, xla: bool, refused: type[Exception]) -> None:
        self._function, self._xla, self._refused = function, xla, refused
        self._args: tuple[Any, ...] = ()
        self._concrete: Any = None
        self.constants = 0

    def trace(self, args: tuple[Any, ...]) -> object:
        self._args, self._concrete = args, self._function.get_concrete_function(*args)
        return self._concrete

    def python_calls(self) -> list[str]:
        return tensorflow_program.python_calls(self._concrete.graph)

    def describe(self) -> Compiled | None:
        """Read the traced graph, or what XLA makes of it: compiled once more for that, in no timed phase."""
        if not self._xla:
            graph = self._concrete.graph
            return Compiled(tensorflow_program.text(graph), tensorflow_program.inputs_read(graph))
        try:
            hlo = self._function.experimental_get_compiler_ir(*self._args)("optimized_hlo")
        except (self._refused, ValueError):
            # The first call is refused as well, and says so.
            return None
        given = tensorflow_program.inputs_read(self._concrete.graph)
        self.constants = max(given - len(tensorflow_program.parameters(hlo)), 0)
        return Compiled(tensorflow_program.hlo_text(hlo), tensorflow_program.parameters_read(hlo))


def _count_traces(framework: Framework) -> None:
    """Count every tf.function traced in the process, those that a kernel makes for itself included.

    Each trace at top level becomes a function of the runtime, which it optimizes at the first call: a lowering. Traced
    for XLA, with the static shapes of placed inputs, it is compiled once, at that call. XLA's own count cannot be read.
    """
    import tensorflow as tf
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    create = tracing_compilation._create_concrete_function

    def counted(function_type: Any, type_context: Any, graph: Any, options: Any) -> Any:
        framework.events.traces += 1
        if not tf.inside_function():
            framework.events.lowerings += 1
            framework.events.compiles += bool((options.attributes or {}).get("_XlaMustCompile"))
        return create(function_type, type_context, graph, options)

    tracing_compilation._create_concrete_function = counted


ADAPTER = TensorFlow
