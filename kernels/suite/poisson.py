"""poisson: solve ``-laplace(u) = f`` on a periodic square by Fourier transforms, ``u = irfft2(rfft2(f) / k^2)``.

Numba has no Fourier transform, and so no implementation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def poisson(xp: Any, f: Any, green: Any) -> Any:
    """Return u (n, n) of mean 0: f (n, n) with n even, green (n, n / 2 + 1) the inverse of k^2, 0 at its first."""
    return xp.fft.irfft2(xp.fft.rfft2(f) * green)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw f from N(0, n^2), so that u is of order 1, on a square of side 2 pi; a solver keeps green between calls."""
    k2 = np.fft.fftfreq(n, 1 / n)[:, None] ** 2 + np.fft.rfftfreq(n, 1 / n) ** 2
    k2[0, 0] = np.inf
    return n * rng.standard_normal((n, n)).astype(dtype), (1 / k2).astype(dtype)


def work(itemsize: int, n: int) -> Work:
    """Count 2.5 N log2(N) for each real transform of N = n^2 numbers, and 2 for each of about N / 2 coefficients.

    2.5 N log2(N) is the customary figure of the FFTW project's benchmark (fftw.org/speed/method.html).
    """
    size, coefficients = n * n, n * (n // 2 + 1)
    return Work(round(2 * 2.5 * size * math.log2(size)) + 2 * coefficients, itemsize * (2 * size + coefficients))


def tensorflow() -> Function:
    """Write the body with TensorFlow's names; it multiplies no complex number by a real one."""
    import tensorflow as tf

    def poisson_tensorflow(f: Any, green: Any) -> Any:
        coefficients = tf.signal.rfft2d(f)
        return tf.signal.irfft2d(coefficients * tf.cast(green, coefficients.dtype))

    return poisson_tensorflow


KERNEL = Kernel(
    name="poisson",
    summary="irfft2(rfft2(f) / k^2)",
    sizes={"S": {"n": 32}, "M": {"n": 256}, "L": {"n": 2048}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A transform's error grows as log(N) units of the norm; u is of order 1 and passes through zero.
    tolerance={"float32": Tolerance(1e-5, 1e-5), "float64": Tolerance(1e-13, 1e-13)},
    array=poisson,
    implementations={"tensorflow": tensorflow},
)
