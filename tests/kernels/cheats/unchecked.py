"""Kernels whose outputs are compared with nothing, or with what lets anything pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.spec import Tolerance
from kernels.suite import sincos


def _sincos(name, build, **changes):
    return replace(sincos.KERNEL, name=name, implementations={"numpy": build, "jax": build}, **changes)


NO_OUTPUT = _sincos("no_output", lambda: lambda x: None)
EMPTY_OUTPUT = _sincos("empty_output", lambda: lambda x: {}, reference=lambda x: {})
EMPTY_ARRAY = _sincos("empty_array", lambda: lambda x: x[:0], reference=lambda x: x[:0])
MISSING_OUTPUT = _sincos("missing_output", lambda: lambda x: (2 * x,), reference=lambda x: (2 * x, 3 * x))
EXTRA_OUTPUT = _sincos("extra_output", lambda: lambda x: (2 * x, x), reference=lambda x: 2 * x)
ZEROS_PASS = _sincos(
    "zeros_pass", lambda: lambda x: 0 * x, tolerance={name: Tolerance(0.0, 10.0) for name in sincos.KERNEL.dtypes}
)
NAN_REFERENCE = _sincos("nan_reference", lambda: lambda x: x * np.nan, reference=lambda x: x * np.nan)
SCALAR_FOR_ARRAY = _sincos("scalar_for_array", lambda: lambda x: x[0], reference=lambda x: x)
