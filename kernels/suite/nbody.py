"""nbody: a leapfrog step of softened gravity, ``a_i = sum_j m_j d_ij / (|d_ij|^2 + SOFTENING2)^1.5`` over all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

DT = 0.05
SOFTENING2 = 0.05
"""The step, and the square of the softening length, where G is 1."""


def acceleration(xp: Any, x: Any, m: Any) -> Any:
    """Return the acceleration of each body (n, 3): x (n, 3), m (n,)."""
    d = x[None, :, :] - x[:, None, :]
    r2 = xp.sum(d * d, axis=-1) + SOFTENING2
    return xp.sum((m / (r2 * xp.sqrt(r2)))[:, :, None] * d, axis=1)


def nbody(xp: Any, x: Any, v: Any, m: Any) -> Any:
    """Return positions and velocities (n, 3) a step later: half a kick, a drift, half a kick."""
    v = v + DT / 2 * acceleration(xp, x, m)
    x = x + DT * v
    return x, v + DT / 2 * acceleration(xp, x, m)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw positions and velocities from N(0, 1), masses from [0.5, 1.5) / n: a cloud of total mass 1."""
    x, v = rng.standard_normal((2, n, 3))
    return tuple(a.astype(dtype) for a in (x, v, rng.uniform(0.5, 1.5, n) / n))


def work(itemsize: int, n: int) -> Work:
    """Count what the pairs need, twice, and for each of 3 n coordinates two kicks and a drift of 2 operations each.

    A pair takes 27 when its force is used for both bodies: 3 differences, 6 for r2, 4 for the weight with its root and
    division, 2 for the masses, 12 for the sums. Taken for each body apart it is 20 a body, the count of Nyland, Harris
    and Prins, GPU Gems 3, chapter 31.
    """
    return Work(27 * n * (n - 1) + 18 * n, itemsize * 13 * n)


def tensorflow() -> Function:
    """Write the body with TensorFlow's names."""
    import tensorflow as tf

    def acceleration(x: Any, m: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        r2 = tf.reduce_sum(d * d, axis=-1) + SOFTENING2
        return tf.reduce_sum((m / (r2 * tf.sqrt(r2)))[:, :, None] * d, axis=1)

    def nbody_tensorflow(x: Any, v: Any, m: Any) -> Any:
        v = v + DT / 2 * acceleration(x, m)
        x = x + DT * v
        return x, v + DT / 2 * acceleration(x, m)

    return nbody_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would."""

    def nbody_loops(x: Any, v: Any, m: Any) -> Any:
        number = x.dtype.type
        x, v = x.copy(), v.copy()
        for kick in range(2):
            for i in range(m.size):
                ax = ay = az = number(0)
                for j in range(m.size):
                    dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                    r2 = dx * dx + dy * dy + dz * dz + number(SOFTENING2)
                    w = m[j] / (r2 * math.sqrt(r2))
                    ax += w * dx
                    ay += w * dy
                    az += w * dz
                v[i, 0] += number(DT / 2) * ax
                v[i, 1] += number(DT / 2) * ay
                v[i, 2] += number(DT / 2) * az
            if kick == 0:
                for i in range(m.size):
                    for k in range(3):
                        x[i, k] += number(DT) * v[i, k]
        return x, v

    return nbody_loops


KERNEL = Kernel(
    name="nbody",
    summary="a leapfrog step of softened gravity between all pairs",
    sizes={"S": {"n": 32}, "M": {"n": 256}, "L": {"n": 1500}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Velocities of order 1 take up kicks of order DT, whose sums over n bodies round by a few n ** 0.5 units.
    tolerance={"float32": Tolerance(2e-6, 5e-7), "float64": Tolerance(1e-14, 1e-14)},
    array=nbody,
    implementations={"numba": numba, "tensorflow": tensorflow},
    differentiable=(0, 1, 2),
)
