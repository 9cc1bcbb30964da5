"""Kernels in TensorFlow whose timing would mean something else than the case says."""

from __future__ import annotations

from dataclasses import replace

from kernels.spec import Work
from kernels.suite import sincos, total


def retraces():
    """Give an inner function a new number of Python at each call: it is traced for each number."""
    import tensorflow as tf

    inner = tf.function(lambda n, y: tf.sin(y) + tf.cos(y) + 0 * n)
    calls = iter(range(10**9))
    return lambda x: inner(next(calls), x)


def compiles_anew():
    import tensorflow as tf

    def call(x):
        return tf.function(lambda y: tf.sin(y) + tf.cos(y), jit_compile=True)(x)

    return call


def by_numpy():
    import numpy as np
    import tensorflow as tf

    def call(x):
        y = tf.numpy_function(lambda v: np.sin(v) + np.cos(v), [x], x.dtype)
        return tf.ensure_shape(y, x.shape)

    return call


def by_numpy_within():
    """Hide the call in a function within the function."""
    import tensorflow as tf

    return tf.function(by_numpy())


def eagerly():
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    return lambda x: tf.sin(x) + tf.cos(x)


def folded():
    """Return what was found out before: a constant of the graph."""
    import tensorflow as tf

    return lambda x: tf.constant(0.5, x.dtype) + 0 * tf.constant(1.0, x.dtype)


def reads_one():
    import tensorflow as tf

    return lambda x, y: tf.sin(x) + tf.cos(x)


def refused():
    """XLA has no operation for strings."""
    import tensorflow as tf

    return lambda x: tf.strings.to_number(tf.strings.as_string(x, precision=17), x.dtype)


def decorated():
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def sincos_tf(x):
        return tf.sin(x) + tf.cos(x)

    return sincos_tf


def control_flow():
    """Leave the loop to AutoGraph."""
    import tensorflow as tf

    def call(x):
        i, y = tf.constant(0), tf.zeros_like(x)
        while i < 3:
            y += tf.sin(x) / 3
            i += 1
        return y + tf.cos(x)

    return call


def loops():
    """Bound the loop: XLA differentiates no other."""
    import tensorflow as tf

    def call(x):
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y)), (0, x), maximum_iterations=3)
        return y + tf.cos(x)

    return call


def scans():
    """Hide the loop in a function that the kernel's form does not name."""
    import tensorflow as tf

    hidden = getattr(tf, "while" + "_loop")

    def call(x):
        return hidden(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y)), (0, x), maximum_iterations=3)[1] + tf.cos(x)

    return call


def gathers():
    import tensorflow as tf

    return lambda x: tf.reduce_sum(tf.gather(x, tf.range(0, tf.size(x), 2)) ** 3)


def constant_inputs(rng, dtype, n):
    return (*sincos.inputs(rng, dtype, n), *sincos.inputs(rng, dtype, n))


def of(name, builder, **changes):
    return replace(sincos.KERNEL, name=name, implementations={"tensorflow": builder}, **changes)


RETRACES = of("retraces", retraces)
COMPILES_ANEW = of("compiles_anew", compiles_anew)
BY_NUMPY = of("by_numpy", by_numpy)
BY_NUMPY_WITHIN = replace(sincos.KERNEL, name="by_numpy_within", implementations={"tensorflow": by_numpy_within})
EAGERLY = of("eagerly", eagerly)
FOLDED = replace(
    total.KERNEL,
    name="folded",
    array=lambda xp, x: xp.sum(x) * 0 + 0.5,
    implementations={"tensorflow": folded},
    tolerance=sincos.KERNEL.tolerance,
    differentiable=(),
)
READS_ONE = of(
    "reads_one",
    reads_one,
    inputs=constant_inputs,
    array=lambda xp, x, y: xp.sin(x) + xp.cos(x),
    work=lambda itemsize, n: Work(3 * n, 2 * itemsize * n),
)
REFUSED = of("refused", refused, array=lambda xp, x: x * 1)
DECORATED = of("decorated", decorated)
CONTROL_FLOW = of("control_flow", control_flow)
LOOPS = of("loops", loops, array=lambda xp, x: xp.sin(xp.sin(xp.sin(x))) + xp.cos(x))
HIDDEN_LOOP = replace(LOOPS, name="hidden_loop", implementations={"tensorflow": scans})
GATHERS = replace(
    total.KERNEL,
    name="gathers",
    array=lambda xp, x: xp.sum(x[::2] ** 3),
    implementations={"tensorflow": gathers},
    linear=False,
)
