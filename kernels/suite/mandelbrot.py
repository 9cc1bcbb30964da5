"""mandelbrot: how many of ``z = z^2 + c``, from z = 0, lie within the radius 2, at most ``LIMIT``; integers.

Counts are compared exactly, and near a change of the count rounding decides. So points are drawn from discs in which
the count is one, with a margin: at every step ``||z|^2 - 4|`` is above 0.02, which no rounding within them reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

LIMIT = 50

DISCS = (
    # Centre, radius and count, found by search; those of LIMIT lie in the heart, its bulb and the rabbits' ears.
    (0.59 + 1.18j, 0.2, 2),
    (-0.98 + 1.04j, 0.2, 3),
    (-0.54 + 0.97j, 0.1, 4),
    (-0.77 + 0.52j, 0.03, 6),
    (-0.77 + 0.39j, 0.02, 8),
    (-0.775 + 0.249j, 0.005, 12),
    (-0.443 + 0.596j, 0.002, 16),
    (-0.754 + 0.128j, 0.002, 24),
    (-0.1 + 0j, 0.3, LIMIT),
    (-1 + 0j, 0.2, LIMIT),
    (-0.12 + 0.745j, 0.05, LIMIT),
    (-0.12 - 0.745j, 0.05, LIMIT),
)


def iterate(xp: Any, re: Any, im: Any, x: Any, y: Any, count: Any) -> Any:
    """Return x, y and count a step later; what has left stays where it is, and never overflows."""
    x2, y2 = x * x, y * y
    inside = x2 + y2 <= 4
    return (
        xp.where(inside, x2 - y2 + re, x),
        xp.where(inside, 2 * x * y + im, y),
        xp.where(inside, count + 1, count),
    )


def mandelbrot(xp: Any, re: Any, im: Any) -> Any:
    """Return the counts (n,), int32, of the points re + im i (n,)."""
    x, y, count = xp.zeros_like(re), xp.zeros_like(im), xp.zeros_like(re, dtype=xp.int32)
    for _ in range(LIMIT):
        x, y, count = iterate(xp, re, im, x, y, count)
    return count


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw as many points from every disc, evenly over its area, in random order."""
    centre, radius = (np.array(column) for column in list(zip(*DISCS, strict=True))[:2])
    disc = rng.permutation(n) % len(DISCS)
    c = centre[disc] + radius[disc] * np.sqrt(rng.random(n)) * np.exp(2j * np.pi * rng.random(n))
    return c.real.astype(dtype), c.imag.astype(dtype)


def work(itemsize: int, n: int) -> Work:
    """Count 10 for every step until a point leaves: 9 of z and its square, and 1 of the count, of 4 bytes."""
    steps = sum(count * ((n - 1 - disc) // len(DISCS) + 1) for disc, (_, _, count) in enumerate(DISCS))
    return Work(10 * steps, (2 * itemsize + 4) * n)


def jax() -> Function:
    """Loop until every point has left, within the program."""
    import jax.numpy as jnp
    from jax import lax

    def mandelbrot_jax(re: Any, im: Any) -> Any:
        def more(state: Any) -> Any:
            step, x, y, _ = state
            return (step < LIMIT) & jnp.any(x * x + y * y <= 4)

        def body(state: Any) -> Any:
            return state[0] + 1, *iterate(jnp, re, im, *state[1:])

        start = (0, jnp.zeros_like(re), jnp.zeros_like(im), jnp.zeros_like(re, dtype=jnp.int32))
        return lax.while_loop(more, body, start)[3]

    return mandelbrot_jax


def torch_compile() -> Function:
    """Loop within the program: the compiler would unroll a loop of Python's."""
    import torch
    from torch._higher_order_ops import while_loop

    def more(step: torch.Tensor, re: torch.Tensor, im: torch.Tensor, x: Any, y: Any, count: Any) -> Any:
        return (step < LIMIT) & (x * x + y * y <= 4).any()

    def body(step: torch.Tensor, re: torch.Tensor, im: torch.Tensor, x: Any, y: Any, count: Any) -> Any:
        return step + 1, re.clone(), im.clone(), *iterate(torch, re, im, x, y, count)

    def mandelbrot_torch(re: torch.Tensor, im: torch.Tensor) -> Any:
        count = torch.zeros_like(re, dtype=torch.int32)
        start = (torch.zeros((), dtype=torch.int64), re, im, torch.zeros_like(re), torch.zeros_like(im), count)
        return while_loop(more, body, start)[5]

    return mandelbrot_torch


def tensorflow() -> Function:
    """Loop until every point has left, within the program."""
    import tensorflow as tf

    def mandelbrot_tensorflow(re: Any, im: Any) -> Any:
        def more(step: Any, x: Any, y: Any, _: Any) -> Any:
            return (step < LIMIT) & tf.reduce_any(x * x + y * y <= 4)

        def body(step: Any, x: Any, y: Any, count: Any) -> Any:
            return step + 1, *iterate(tf, re, im, x, y, count)

        start = (tf.constant(0), tf.zeros_like(re), tf.zeros_like(im), tf.zeros_like(re, dtype=tf.int32))
        return tf.while_loop(more, body, start)[3]

    return mandelbrot_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would: each point for itself."""

    def mandelbrot_loops(re: Any, im: Any) -> Any:
        counts = np.empty(re.size, np.int32)
        for i in range(re.size):
            x = y = re.dtype.type(0)
            count = 0
            while count < LIMIT and x * x + y * y <= 4:
                x, y = x * x - y * y + re[i], (x + x) * y + im[i]
                count += 1
            counts[i] = count
        return counts

    return mandelbrot_loops


def python() -> Function:
    """Walk the points, in Python's complex numbers."""

    def mandelbrot_python(re: Any, im: Any) -> Any:
        counts = []
        for c in map(complex, re, im):
            z, count = 0j, 0
            while count < LIMIT and abs(z) <= 2:
                z = z * z + c
                count += 1
            counts.append(count)
        return counts

    return mandelbrot_python


KERNEL = Kernel(
    name="mandelbrot",
    summary=f"steps of z = z^2 + c within |z| <= 2, at most {LIMIT}",
    sizes={"S": {"n": 1_200}, "M": {"n": 120_000}, "L": {"n": 1_200_000}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Integers are compared exactly; no point lies where rounding decides.
    tolerance={"float32": Tolerance(0.0, 0.0), "float64": Tolerance(0.0, 0.0)},
    array=mandelbrot,
    implementations={
        "jax/jit": jax,
        "torch/compile": torch_compile,
        "tensorflow": tensorflow,
        "numba": numba,
        "python": python,
    },
)
