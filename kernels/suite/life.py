"""life: Conway's game of life on a torus, ``STEPS`` generations in one call, in integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work

STEPS = 10
"""Generations of a call: few, since PyTorch's compilers unroll them."""


def generation(xp: Any, grid: Any) -> Any:
    """Return the next generation of grid (n, n), 1 alive and 0 dead: three of the block of nine, or alive and four."""
    rows = grid + xp.roll(grid, 1, 0) + xp.roll(grid, -1, 0)
    block = rows + xp.roll(rows, 1, 1) + xp.roll(rows, -1, 1)
    return (block == 3) + grid * (block == 4)


def life(xp: Any, grid: Any) -> Any:
    """Return the grid after ``STEPS`` generations."""
    for _ in range(STEPS):
        grid = generation(xp, grid)
    return grid


def inputs(rng: np.random.Generator, dtype: Any, n: int) -> tuple[np.ndarray, ...]:
    """Draw a grid of which three cells in ten are alive."""
    return ((rng.random((n, n)) < 0.3).astype(dtype),)


def work(itemsize: int, n: int) -> Work:
    """Count 4 sums for the block, 2 comparisons and 2 logical operations per cell and generation."""
    return Work(8 * n * n * STEPS, 2 * itemsize * n * n)


def jax() -> Function:
    """Loop within the program; without jit, every call of a loop of JAX's own would compile it anew."""
    import jax.numpy as jnp
    from jax import lax

    def life_jax(grid: Any) -> Any:
        return lax.fori_loop(0, STEPS, lambda _, g: generation(jnp, g), grid)

    return life_jax


def numba() -> Function:
    """Write the loops that a person of Numba would; negative indices wrap around the torus."""

    def life_loops(grid: Any) -> Any:
        n = grid.shape[0]
        old, new = grid.copy(), np.empty_like(grid)
        for _ in range(STEPS):
            for i in range(n):
                for j in range(n):
                    block = 0
                    for r in (i - 1, i, i + 1 - n):
                        block += old[r, j - 1] + old[r, j] + old[r, j + 1 - n]
                    new[i, j] = block == 3 or (block == 4 and old[i, j] == 1)
            old, new = new, old
        return old

    return life_loops


def tensorflow() -> Function:
    """Loop within the program."""
    import tensorflow as tf

    def step(number: Any, grid: Any) -> Any:
        rows = grid + tf.roll(grid, 1, 0) + tf.roll(grid, -1, 0)
        block = rows + tf.roll(rows, 1, 1) + tf.roll(rows, -1, 1)
        return number + 1, tf.cast((block == 3) | ((block == 4) & (grid == 1)), grid.dtype)

    def life_tensorflow(grid: Any) -> Any:
        return tf.while_loop(lambda number, _: number < STEPS, step, (tf.constant(0), grid))[1]

    return life_tensorflow


KERNEL = Kernel(
    name="life",
    summary=f"{STEPS} generations of the game of life on a torus",
    sizes={"S": {"n": 32}, "M": {"n": 256}, "L": {"n": 2048}},
    dtypes=("int32",),
    inputs=inputs,
    work=work,
    # Integers are compared exactly.
    tolerance={"int32": Tolerance(0.0, 0.0)},
    array=life,
    implementations={"jax/jit": jax, "numba": numba, "tensorflow": tensorflow},
)
