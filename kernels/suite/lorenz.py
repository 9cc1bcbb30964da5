"""lorenz: many trajectories of the Lorenz system by ``STEPS`` steps of the classical Runge-Kutta method.

The system is chaotic: few steps keep rounding from growing, and PyTorch's compilers, which unroll them, from slowing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3
STEPS, H = 5, 0.04


def slope(x: Any, y: Any, z: Any) -> Any:
    """Return the derivatives by time, of numbers or arrays."""
    return SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z


def step(x: Any, y: Any, z: Any) -> Any:
    """Return the state a time H later."""
    ax, ay, az = slope(x, y, z)
    bx, by, bz = slope(x + H / 2 * ax, y + H / 2 * ay, z + H / 2 * az)
    cx, cy, cz = slope(x + H / 2 * bx, y + H / 2 * by, z + H / 2 * bz)
    dx, dy, dz = slope(x + H * cx, y + H * cy, z + H * cz)
    x = x + H / 6 * (ax + 2 * (bx + cx) + dx)
    y = y + H / 6 * (ay + 2 * (by + cy) + dy)
    return x, y, z + H / 6 * (az + 2 * (bz + cz) + dz)


def lorenz(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the states x, y, z (n,) of n trajectories after ``STEPS`` steps."""
    for _ in range(STEPS):
        x, y, z = step(x, y, z)
    return x, y, z


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw states around the attractor: x and y from N(0, 8^2), z from N(25, 8^2)."""
    x, y, z = 8 * rng.standard_normal((3, n))
    return tuple(a.astype(dtype) for a in (x, y, 25 + z))


def work(itemsize: int, n: int) -> Work:
    """Count 8 for a slope, of which a step takes four, 18 for the states between and 18 for the sums at its end."""
    return Work(68 * STEPS * n, 6 * itemsize * n)


def jax() -> Function:
    """Scan over the steps within the program."""
    from jax import lax

    def lorenz_jax(*state: Any) -> Any:
        return lax.scan(lambda state, _: (step(*state), None), state, length=STEPS)[0]

    return lorenz_jax


def tensorflow() -> Function:
    """Loop within the program, for a number of steps that XLA must know to take a derivative."""
    import tensorflow as tf

    def lorenz_tensorflow(*state: Any) -> Any:
        def body(number: Any, *state: Any) -> Any:
            return number + 1, *step(*state)

        start = (tf.constant(0), *state)
        return tf.while_loop(lambda number, *_: number < STEPS, body, start, maximum_iterations=STEPS)[1:]

    return lorenz_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would, a trajectory at a time in the arrays' own precision."""

    def lorenz_loops(x: Any, y: Any, z: Any) -> Any:
        number = x.dtype.type
        sigma, rho, beta, two = number(SIGMA), number(RHO), number(BETA), number(2)
        half, full, sixth = number(H / 2), number(H), number(H / 6)
        x, y, z = x.copy(), y.copy(), z.copy()
        for i in range(x.size):
            u, v, w = x[i], y[i], z[i]
            for _ in range(STEPS):
                au, av, aw = sigma * (v - u), u * (rho - w) - v, u * v - beta * w
                p, q, r = u + half * au, v + half * av, w + half * aw
                bu, bv, bw = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
                p, q, r = u + half * bu, v + half * bv, w + half * bw
                cu, cv, cw = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
                p, q, r = u + full * cu, v + full * cv, w + full * cw
                u += sixth * (au + two * (bu + cu) + sigma * (q - p))
                v += sixth * (av + two * (bv + cv) + p * (rho - r) - q)
                w += sixth * (aw + two * (bw + cw) + p * q - beta * r)
            x[i], y[i], z[i] = u, v, w
        return x, y, z

    return lorenz_loops


def python() -> Function:
    """Walk the trajectories, a list of numbers for each coordinate."""

    def lorenz_python(x: Any, y: Any, z: Any) -> Any:
        ends = [lorenz(None, *state) for state in zip(x, y, z, strict=True)]
        return tuple(list(coordinate) for coordinate in zip(*ends, strict=True))

    return lorenz_python


KERNEL = Kernel(
    name="lorenz",
    summary=f"{STEPS} Runge-Kutta steps of the Lorenz system",
    sizes={"S": {"n": 100}, "M": {"n": 10_000}, "L": {"n": 1_000_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # In a time of STEPS H nearby states part by up to some ten times; coordinates are of order 10, and pass zero.
    tolerance={"float32": Tolerance(1e-5, 5e-5), "float64": Tolerance(1e-13, 1e-12)},
    array=lorenz,
    implementations={"jax/jit": jax, "tensorflow": tensorflow, "numba": numba, "python": python},
    differentiable=(0, 1, 2),
)
