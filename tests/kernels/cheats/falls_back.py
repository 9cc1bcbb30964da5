"""Kernels whose work is done elsewhere than the case says: another framework, the interpreter, another dtype, later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.spec import Tolerance
from kernels.suite import dense, sincos, total

LOOSE = {"float32": Tolerance(1e-2, 1e-2), "float64": Tolerance(1e-4, 1e-4)}


def both(x):
    return np.sin(x) + np.cos(x)


def callback():
    import jax

    return lambda x: jax.pure_callback(both, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def host_arrays():
    return lambda x: both(np.asarray(x))


def interpreter():
    import numba

    def call(x):
        with numba.objmode(y="float64[:]"):
            y = np.sin(x) + np.cos(x)
        return 1 * y

    return call


def by_numba():
    import numba

    return numba.njit(both)


def by_jax():
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    return jax.jit(lambda x: jax.numpy.sin(x) + jax.numpy.cos(x))


def torch_by_jax():
    import jax
    import torch

    call = by_jax()
    return lambda x: torch.from_numpy(np.array(call(jax.numpy.asarray(x.numpy()))))


def tensorflow_by_jax():
    import jax
    import tensorflow as tf

    call = by_jax()
    return lambda x: tf.constant(np.array(call(jax.numpy.asarray(x.numpy()))))


def tensorflow_by_torch():
    import tensorflow as tf
    import torch

    def call(x):
        y = torch.from_numpy(x.numpy())
        return tf.constant((torch.sin(y) + torch.cos(y)).numpy())

    return call


class Promise:
    """Computes when somebody looks."""

    def __init__(self, x):
        self._x = x

    def __array__(self, dtype=None, copy=None):
        return both(self._x)


def narrow_jax():
    import jax.numpy as jnp

    def call(x):
        y = x.astype(jnp.float16 if x.dtype == jnp.float32 else jnp.float32)
        return (jnp.sin(y) + jnp.cos(y)).astype(x.dtype)

    return call


def narrow_torch():
    import torch

    def call(x):
        y = x.to(torch.float16)
        return torch.sin(y).to(x.dtype) + torch.cos(y).to(x.dtype)

    return call


def narrow_matmul():
    import torch

    def call(x, w, b):
        return torch.mean(torch.tanh((x.half() @ w.half()).to(x.dtype) + b))

    return call


def narrow_tensorflow():
    import tensorflow as tf

    def call(x):
        y = tf.cast(x, tf.float16)
        return tf.cast(tf.sin(y), x.dtype) + tf.cast(tf.cos(y), x.dtype)

    return call


def narrow_numba():
    def call(x):
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = np.sin(np.float32(x[i])) + np.cos(np.float32(x[i]))
        return y

    return call


def without_x64():
    import jax

    jax.config.update("jax_enable_x64", False)
    return lambda x: jax.numpy.sin(x) + jax.numpy.cos(x)


def without_jit():
    import numba

    numba.config.DISABLE_JIT = 1
    return both


CALLBACK = replace(sincos.KERNEL, name="callback", implementations={"jax": callback})
HOST_ARRAYS = replace(sincos.KERNEL, name="host_arrays", implementations={"jax/eager": host_arrays})
INTERPRETER = replace(sincos.KERNEL, name="interpreter", dtypes=("float64",), implementations={"numba": interpreter})
BY_NUMBA = replace(sincos.KERNEL, name="by_numba", implementations={"numpy": by_numba})
BY_JAX = replace(sincos.KERNEL, name="by_jax", implementations={"numpy": by_jax})
COPIED = replace(sincos.KERNEL, name="copied", implementations={"torch": torch_by_jax, "tensorflow": tensorflow_by_jax})
BY_TORCH = replace(sincos.KERNEL, name="by_torch", implementations={"tensorflow": tensorflow_by_torch})
PROMISED = replace(sincos.KERNEL, name="promised", implementations={"numpy": lambda: Promise})
NARROW = replace(
    sincos.KERNEL,
    name="narrow",
    tolerance=LOOSE,
    implementations={
        "jax": narrow_jax,
        "numba": narrow_numba,
        "torch": narrow_torch,
        "tensorflow": narrow_tensorflow,
    },
)
NARROW_MATMUL = replace(dense.KERNEL, name="narrow_matmul", tolerance=LOOSE, implementations={"torch": narrow_matmul})
"""What is narrow from one operation to the next alone, inductor computes in float32 all the same."""
WITHOUT_X64 = replace(sincos.KERNEL, name="without_x64", implementations={"jax": without_x64})
WITHOUT_JIT = replace(sincos.KERNEL, name="without_jit", implementations={"numba": without_jit})


def wide_total():
    def call(x):
        s = 0.0
        for v in x:
            s += v
        return x.dtype.type(s)

    return call


WIDE_TOTAL = replace(total.KERNEL, name="wide_total", implementations={"numba": wide_total})
"""Honest: a sum of float32 values in a wider accumulator."""
