"""jacobi2d: ``STEPS`` sweeps of the five-point stencil over a grid with a fixed border, as in PolyBench."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

STEPS = 100
"""Sweeps of one call."""


def mean5(u: Any) -> Any:
    """Return the mean of each inner cell of u (n, n) and its four neighbours, (n - 2, n - 2)."""
    return 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1])


def jacobi2d(xp: Any, u: Any) -> Any:
    """Return u (n, n) after ``STEPS`` sweeps; for NumPy and PyTorch, whose arrays can be assigned to."""
    swept = xp.empty_like(u)
    swept[:] = u
    for _ in range(STEPS):
        swept[1:-1, 1:-1] = mean5(swept)
    return swept


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw the grid and its border from [0, 1)."""
    return (rng.random((n, n)).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count 4 additions and a multiplication per inner cell and sweep; a grid is read and one written once."""
    return Work(5 * STEPS * (n - 2) ** 2, 2 * itemsize * n * n)


def jax_eager() -> Function:
    """Sweep by a Python loop over padded means: JAX's arrays cannot be assigned to."""
    import jax.numpy as jnp

    def jacobi2d_sweeps(u: Any) -> Any:
        border = u.at[1:-1, 1:-1].set(0)
        for _ in range(STEPS):
            u = border + jnp.pad(mean5(u), 1)
        return u

    return jacobi2d_sweeps


def jax_jit() -> Function:
    """Loop within the program.

    Padding fuses with the mean into one pass over the grid; ``u.at[...].set`` copies it first, and takes four times
    as long.
    """
    import jax.numpy as jnp
    from jax import lax

    def sweep(_: Any, state: Any) -> Any:
        border, u = state
        return border, border + jnp.pad(mean5(u), 1)

    return lambda u: lax.fori_loop(0, STEPS, sweep, (u.at[1:-1, 1:-1].set(0), u))[1]


def torch_compile() -> Function:
    """Loop within the program: unrolled by the compiler, a hundred sweeps would take it minutes."""
    import torch
    from torch._higher_order_ops import while_loop

    def sweep(step: torch.Tensor, u: torch.Tensor) -> Any:
        swept = u.clone()
        swept[1:-1, 1:-1] = mean5(u)
        return step + 1, swept

    def jacobi2d_torch(u: torch.Tensor) -> Any:
        return while_loop(lambda step, _: step < STEPS, sweep, (torch.zeros((), dtype=torch.int64), u))[1]

    return jacobi2d_torch


def tensorflow() -> Function:
    """Loop within the program; tensors cannot be assigned to, so the border is padded with zeros and added."""
    import tensorflow as tf

    frame = [[1, 1], [1, 1]]

    def jacobi2d_tensorflow(u: Any) -> Any:
        border = u - tf.pad(u[1:-1, 1:-1], frame)

        def sweep(step: Any, u: Any) -> Any:
            return step + 1, border + tf.pad(mean5(u), frame)

        return tf.while_loop(lambda step, _: step < STEPS, sweep, (tf.constant(0), u))[1]

    return jacobi2d_tensorflow


def numba() -> Function:
    """Write the loops that a person of Numba would, from one grid to another and back."""

    def jacobi2d_loops(u: Any) -> Any:
        n, fifth = u.shape[0], u.dtype.type(0.2)
        old, new = u.copy(), u.copy()
        for _ in range(STEPS):
            for i in range(1, n - 1):
                for j in range(1, n - 1):
                    new[i, j] = fifth * (old[i, j] + old[i, j - 1] + old[i, j + 1] + old[i - 1, j] + old[i + 1, j])
            old, new = new, old
        return old

    return jacobi2d_loops


KERNEL = Kernel(
    name="jacobi2d",
    summary=f"{STEPS} sweeps of u = (u + its four neighbours) / 5",
    sizes={"S": {"n": 32}, "M": {"n": 256}, "L": {"n": 1500}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # A mean of values in [0, 1) damps what was rounded before; each sweep adds a few units in the last place.
    tolerance={"float32": Tolerance(1e-5, 1e-6), "float64": Tolerance(1e-13, 1e-14)},
    array=jacobi2d,
    implementations={
        "jax/eager": jax_eager,
        "jax/jit": jax_jit,
        "torch/compile": torch_compile,
        "tensorflow": tensorflow,
        "numba": numba,
    },
)
