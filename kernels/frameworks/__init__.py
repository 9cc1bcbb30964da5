"""Adapters, one file per framework; found here, imported on demand."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from kernels.frameworks.framework import Framework, Mode


@functools.cache
def frameworks() -> Mapping[str, type[Framework]]:
    """Collect the adapters of this package; a new file needs no registration.

    Returns:
        Framework name to adapter. None of the frameworks is imported by this.
    """
    found: dict[str, type[Framework]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        adapter = getattr(importlib.import_module(f"{__name__}.{info.name}"), "ADAPTER", None)
        if adapter is not None:
            found[adapter.NAME] = adapter
    return found


@functools.cache
def modes() -> Mapping[str, Mode]:
    """List every ``framework/mode``.

    Returns:
        Name such as ``jax/jit`` to mode.
    """
    return {
        f"{name}/{mode}": Mode(name, mode, phases, adapter)
        for name, adapter in frameworks().items()
        for mode, phases in adapter.MODES.items()
    }
