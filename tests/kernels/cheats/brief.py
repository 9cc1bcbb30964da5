"""A kernel in a dtype that NumPy itself does not have."""

from __future__ import annotations

from kernels.spec import Kernel, Tolerance, Work

BRIEF = Kernel(
    name="brief",
    summary="2 x",
    sizes={"S": {"n": 256}},
    dtypes=("bfloat16",),
    inputs=lambda rng, dtype, n: (rng.uniform(1, 2, n).astype(dtype),),
    work=lambda itemsize, n: Work(n, 2 * itemsize * n),
    tolerance={"bfloat16": Tolerance(1e-2, 1e-2)},
    array=lambda xp, x: 2 * x,
)
