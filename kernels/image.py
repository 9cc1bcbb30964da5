"""Image: the backend that a container image is for, which a run in it measures on unless another is named."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kernels import case
from kernels.case import Backend

VARIABLE = "JITMATRIX_BACKEND"
"""What every image sets; outside of images, whoever has machines of one kind can."""


def backend() -> Backend | None:
    """Read which backend this image is for.

    Returns:
        The backend; None outside of images.

    Raises:
        UsageError: the variable names none.
    """
    named = os.environ.get(VARIABLE)
    return case.backend(named, VARIABLE) if named else None


def chosen(named: Iterable[str]) -> tuple[str, ...]:
    """Choose the backends of a run.

    Args:
        named: those that it was asked for by name.

    Returns:
        Those named, else the image's; empty outside of images: the matrix's own count then.

    Raises:
        UsageError: the variable names no backend.
    """
    own = None if (given := tuple(named)) else backend()
    return given if own is None else (own.value,)
