"""black_scholes: European call and put, ``call = S N(d1) - K exp(-r T) N(d2)``.

N, the normal distribution, is the approximation 26.2.17 of Abramowitz and Stegun (error below 7.5e-8) in every
framework, as in PARSEC and in the samples of CUDA: NumPy has no erf, and the work is to be the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

P, DENSITY = 0.2316419, 0.3989422804014327
A1, A2, A3, A4, A5 = 0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429


def cdf(xp: Any, d: Any) -> Any:
    """Return the normal distribution function, elementwise."""
    k = 1 / (1 + P * xp.abs(d))
    tail = DENSITY * xp.exp(-0.5 * d * d) * (k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5)))))
    return xp.where(d > 0, 1 - tail, tail)


def black_scholes(xp: Any, spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Return the prices of calls and of puts (n,); every input (n,)."""
    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    n1, n2 = cdf(xp, d1), cdf(xp, d1 - spread)
    discounted = strike * xp.exp(-rate * years)
    return spot * n1 - discounted * n2, discounted * (1 - n2) - spot * (1 - n1)


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw spot and strike from [50, 150), years, rate and volatility from what markets know."""
    ranges = ((50, 150), (50, 150), (0.25, 2), (0.01, 0.05), (0.1, 0.4))
    return tuple(rng.uniform(low, high, n).astype(dtype) for low, high in ranges)


def work(itemsize: int, n: int) -> Work:
    """Count 18 for each of two distribution functions, 9 for d1 and d2 and 13 for the rest; 5 numbers in and 2 out."""
    return Work(58 * n, 7 * itemsize * n)


def tensorflow() -> Function:
    """Write the body with TensorFlow's names."""
    import tensorflow as tf

    def black_scholes_tensorflow(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        spread = volatility * tf.sqrt(years)
        d1 = (tf.math.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
        n1, n2 = cdf(tf, d1), cdf(tf, d1 - spread)
        discounted = strike * tf.exp(-rate * years)
        return spot * n1 - discounted * n2, discounted * (1 - n2) - spot * (1 - n1)

    return black_scholes_tensorflow


def numba() -> Function:
    """Write the loop that a person of Numba would, with constants of the arrays' own precision."""

    def black_scholes_loop(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        number = spot.dtype.type
        half, one, p, density = number(0.5), number(1), number(P), number(DENSITY)
        a1, a2, a3, a4, a5 = number(A1), number(A2), number(A3), number(A4), number(A5)

        def cdf(d: Any) -> Any:
            k = one / (one + p * abs(d))
            tail = density * math.exp(-half * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))))
            return one - tail if d > 0 else tail

        call, put = np.empty_like(spot), np.empty_like(spot)
        for i in range(spot.size):
            spread = volatility[i] * math.sqrt(years[i])
            drift = (rate[i] + half * volatility[i] * volatility[i]) * years[i]
            d1 = (math.log(spot[i] / strike[i]) + drift) / spread
            n1, n2 = cdf(d1), cdf(d1 - spread)
            discounted = strike[i] * math.exp(-rate[i] * years[i])
            call[i] = spot[i] * n1 - discounted * n2
            put[i] = discounted * (one - n2) - spot[i] * (one - n1)
        return call, put

    return black_scholes_loop


KERNEL = Kernel(
    name="black_scholes",
    summary="European call and put by Black and Scholes",
    sizes={"S": {"n": 1_000}, "M": {"n": 100_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Prices of order 100 are differences of numbers as large: near zero only the absolute part helps.
    tolerance={"float32": Tolerance(1e-5, 1e-4), "float64": Tolerance(1e-13, 1e-12)},
    array=black_scholes,
    implementations={"tensorflow": tensorflow, "numba": numba},
    differentiable=(0, 1, 2, 3, 4),
)
