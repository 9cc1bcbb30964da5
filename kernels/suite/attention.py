"""attention: one causal head, ``softmax(q @ k.T / sqrt(d) + mask) @ v``.

It is written as its parts, so that what a compiler makes of them is compared; of the fused functions that frameworks
bring, some have no second derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels.spec import Function, Kernel, Tolerance, Work


def attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """Return a row per query, of q, k and v (n, d); query i sees the keys up to i."""
    scores = q @ xp.swapaxes(k, 0, 1) / math.sqrt(q.shape[1])
    # Made of the scores, the mask is of their device and dtype.
    scores = xp.where(xp.tril(xp.ones_like(scores)) > 0, scores, -math.inf)
    weights = xp.exp(scores - xp.amax(scores, axis=1, keepdims=True))
    return weights @ v / xp.sum(weights, axis=1, keepdims=True)


def inputs(rng: np.random.Generator, dtype: Any, n: int, d: int) -> tuple[np.ndarray, ...]:
    """Draw all from N(0, 1): scores then are N(0, 1) too."""
    return tuple(rng.standard_normal((n, d)).astype(dtype) for _ in range(3))


def work(itemsize: int, n: int, d: int) -> Work:
    """Count 2·d for each product of a visible pair, n(n + 1)/2 of them, with scale, maximum, exponential and sum."""
    return Work(n * (n + 1) // 2 * (4 * d + 5), itemsize * 4 * n * d)


def numba() -> Function:
    """Write the loops over the visible pairs alone, a row of scores at a time."""

    def attention_loops(q: Any, k: Any, v: Any) -> Any:
        n, d = q.shape
        scale = q.dtype.type(1 / math.sqrt(d))
        row, out = np.empty(n, q.dtype), np.zeros_like(v)
        for i in range(n):
            top = q.dtype.type(-np.inf)
            for j in range(i + 1):
                score = q.dtype.type(0)
                for c in range(d):
                    score += q[i, c] * k[j, c]
                row[j] = score * scale
                top = max(top, row[j])
            total = q.dtype.type(0)
            for j in range(i + 1):
                weight = math.exp(row[j] - top)
                total += weight
                for c in range(d):
                    out[i, c] += weight * v[j, c]
            for c in range(d):
                out[i, c] /= total
        return out

    return attention_loops


def torch() -> Function:
    """Take PyTorch's own softmax: in bfloat16 its compiler makes 0 / 0 of the gradient of a maximum written out."""
    import torch

    def attention_torch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.t() / math.sqrt(q.shape[1])
        visible = torch.ones_like(scores, dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~visible, -math.inf), dim=1) @ v

    return attention_torch


def tensorflow() -> Function:
    """Write it with TensorFlow's own functions."""
    import tensorflow as tf

    def attention_tensorflow(q: Any, k: Any, v: Any) -> Any:
        scores = tf.matmul(q, k, transpose_b=True) / math.sqrt(q.shape[1])
        visible = tf.linalg.band_part(tf.ones_like(scores), -1, 0) > 0
        return tf.nn.softmax(tf.where(visible, scores, tf.constant(-math.inf, scores.dtype))) @ v

    return attention_tensorflow


KERNEL = Kernel(
    name="attention",
    summary="softmax(q @ k.T / sqrt(d) + causal mask) @ v",
    sizes={"S": {"n": 64, "d": 32}, "M": {"n": 512, "d": 64}, "L": {"n": 2048, "d": 64}},
    dtypes=("float32", "float64", "bfloat16"),
    inputs=inputs,
    work=work,
    # Averages of N(0, 1) values with weights that err by the rounding of a score, at most about 5; the last rows are
    # averages near 0 of up to 2048 values, where only the absolute part helps.
    # TF32, which JAX and TensorFlow take for float32 products on GPUs, rounds operands to 11 bits, and a TPU's one pass
    # in bfloat16 to 8: twice what that does to the outputs.
    tolerance={
        "float32": Tolerance(1e-5, 1e-5),
        "float32/gpu": Tolerance(1e-3, 1.5e-3),
        "float32/tpu": Tolerance(1e-2, 1.5e-2),
        "float64": Tolerance(1e-13, 1e-13),
        "bfloat16": Tolerance(3e-2, 3e-2),
    },
    array=attention,
    implementations={"numba": numba, "torch": torch, "tensorflow": tensorflow},
    differentiable=(0, 1, 2),
)
