"""Image: the container image that this process runs in, its name, and the backend that a run in it measures on."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kernels import case
from kernels.case import Backend

VARIABLE = "JITMATRIX_BACKEND"
"""What every image sets; outside of images, whoever has machines of one kind can."""


NAME = "JITMATRIX_IMAGE"
"""Variable that an image sets to its own name, or a deployment to the digest by which it gives the image."""


def advice(install: str) -> str:
    """Say how to get a framework that is not here.

    Args:
        install: how outside of images.

    Returns:
        That, or which page has the images: nothing is installed into one that runs.
    """
    return "docs/containers.md tells which images have it" if os.environ.get(NAME) else install


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
