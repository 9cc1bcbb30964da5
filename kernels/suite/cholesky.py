"""cholesky: solve ``a @ x = b``, a symmetric and positive definite, by ``a = l @ l.T`` and two triangular systems.

NumPy alone has no triangular solve: its users call ``np.linalg.solve``, which is an LU decomposition and costs about
twice the operations declared here. Its time is that of what NumPy offers for the task, not of the same algorithm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def reference(a: Any, b: Any) -> Any:
    """Solve for the symmetric part of a: the frameworks' derivatives by a are those of a symmetric matrix."""
    return np.linalg.solve((a + a.T) / 2, b)


def inputs(rng: np.random.Generator, dtype: Any, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Draw ``a = g @ g.T / n + 1`` with eigenvalues between 1 and about 5, and b (n, m), g and b from N(0, 1)."""
    g = rng.standard_normal((n, n))
    a = np.tril(g @ g.T) / n
    return (a + np.tril(a, -1).T + np.eye(n)).astype(dtype), rng.standard_normal((n, m)).astype(dtype)


def work(itemsize: int, n: int, m: int) -> Work:
    """Count n³/3 for the decomposition and 2·n² a right-hand side (Golub and Van Loan, 4.2); half of a is read."""
    return Work(n**3 // 3 + 2 * n * n * m, itemsize * (n * (n + 1) // 2 + 2 * n * m))


def numba() -> Function:
    """Write the loops: Cholesky-Banachiewicz row by row, then forward and backward substitution."""

    def cholesky_loops(a: Any, b: Any) -> Any:
        low, x = a.copy(), b.copy()
        for i in range(a.shape[0]):
            for j in range(i):
                s = low[i, j]
                for k in range(j):
                    s -= low[i, k] * low[j, k]
                low[i, j] = s / low[j, j]
                low[i, i] -= low[i, j] * low[i, j]
            low[i, i] = math.sqrt(low[i, i])
            for c in range(b.shape[1]):
                for k in range(i):
                    x[i, c] -= low[i, k] * x[k, c]
                x[i, c] /= low[i, i]
        for i in range(a.shape[0] - 1, -1, -1):
            for c in range(b.shape[1]):
                x[i, c] /= low[i, i]
                for k in range(i):
                    x[k, c] -= low[i, k] * x[i, c]
        return x

    return cholesky_loops


def jax() -> Function:
    """Take JAX's decomposition, and SciPy's interface for the triangular systems."""
    import jax.numpy as jnp
    import jax.scipy.linalg

    return lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)


def torch() -> Function:
    """Take PyTorch's decomposition and its solve."""
    import torch

    def cholesky_solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cholesky_solve(b, torch.linalg.cholesky(a))

    return cholesky_solve


def tensorflow() -> Function:
    """Take TensorFlow's decomposition and its solve."""
    import tensorflow as tf

    return lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b)


KERNEL = Kernel(
    name="cholesky",
    summary="x with a @ x = b, a symmetric positive definite, by a = l @ l.T",
    sizes={"S": {"n": 32, "m": 4}, "M": {"n": 128, "m": 8}, "L": {"n": 1536, "m": 16}},
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Of a matrix with condition 5 the solution is good to some ten units in the last place, at every size tried. On an
    # accelerator too: solvers ask for products of full precision.
    tolerance={"float32": Tolerance(1e-5, 1e-5), "float64": Tolerance(1e-13, 1e-13)},
    reference=reference,
    implementations={
        "numpy": lambda: np.linalg.solve,
        "numba": numba,
        "jax": jax,
        "torch": torch,
        "tensorflow": tensorflow,
    },
    differentiable=(0, 1),
)
