"""embedding: a bag of embeddings, ``y[i] = mean over j of table[indices[i, j]]``.

It is linear in the table: its gradient, dense though a bag names few of the rows, does not depend on the table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def embedding(xp: Any, table: Any, indices: Any) -> Any:
    """Return the mean of the rows of table (rows, d) that each row of indices (n, bag) names: (n, d)."""
    return xp.mean(table[indices], axis=1)


def inputs(rng: np.random.Generator, dtype: Any, *, rows: int, d: int, n: int, bag: int) -> tuple[np.ndarray, ...]:
    """Draw the table from N(0, 1) and the indices uniformly, as int32."""
    return rng.standard_normal((rows, d)).astype(dtype), rng.integers(rows, size=(n, bag), dtype=np.int32)


def work(itemsize: int, *, rows: int, d: int, n: int, bag: int) -> Work:
    """Count a sum and a division per output, and the rows that are read at least once.

    Of n·bag uniform draws from ``rows`` rows, rows·(1 - exp(-n·bag/rows)) are distinct on average.
    """
    distinct = int(rows * -math.expm1(-n * bag / rows))
    return Work(n * bag * d, itemsize * d * (distinct + n) + 4 * n * bag)


def numba() -> Function:
    """Write the loops that a person of Numba would: no row is copied."""

    def embedding_loops(table: Any, indices: Any) -> Any:
        y = np.zeros((indices.shape[0], table.shape[1]), table.dtype)
        for i in range(y.shape[0]):
            for j in range(indices.shape[1]):
                for c in range(y.shape[1]):
                    y[i, c] += table[indices[i, j], c]
            for c in range(y.shape[1]):
                y[i, c] /= indices.shape[1]
        return y

    return embedding_loops


def torch() -> Function:
    """Take PyTorch's bag of embeddings, which copies no row."""
    import torch

    def embedding_torch(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(indices, table, mode="mean")

    return embedding_torch


def tensorflow() -> Function:
    """Write it with TensorFlow's own functions."""
    import tensorflow as tf

    def embedding_tensorflow(table: Any, indices: Any) -> Any:
        return tf.reduce_mean(tf.gather(table, indices), axis=1)

    return embedding_tensorflow


KERNEL = Kernel(
    name="embedding",
    summary="mean over j of table[indices[i, j]]",
    sizes={
        "S": {"rows": 1_000, "d": 16, "n": 32, "bag": 8},
        "M": {"rows": 10_000, "d": 64, "n": 256, "bag": 16},
        "L": {"rows": 250_000, "d": 64, "n": 4_096, "bag": 32},
    },
    dtypes=("float32", "float64"),
    inputs=inputs,
    work=work,
    # Means of at most 32 values of N(0, 1), near 0: the absolute part is a sequential sum's rounding, few eps.
    tolerance={"float32": Tolerance(1e-6, 2e-6), "float64": Tolerance(1e-15, 4e-15)},
    array=embedding,
    implementations={"numba": numba, "torch": torch, "tensorflow": tensorflow},
    differentiable=(0,),
    linear=True,
)
