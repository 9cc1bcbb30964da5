"""Doctor: what falsifies timings on this machine, and how to mend it.

Run as ``python -m kernels.doctor``; prints a table and exits with 1 when something is off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from kernels import devices, framework_check, host_check
from kernels.case import Backend
from kernels.frameworks import frameworks
from kernels.host_check import Check

__all__ = ["Check", "examine", "main", "quick"]


def quick() -> list[Check]:
    """Look at what can be seen at once, without starting a process or waiting.

    Returns:
        Every check, in a fixed order; a run shows those that are not ok.
    """
    return [*_settings(), *(framework_check.compiled_files(name, most=40) for name in _with_files(frameworks()))]


def examine(names: Iterable[str], backends: Iterable[Backend]) -> list[Check]:
    """Look at everything; takes seconds, since each framework is imported once in a process of its own.

    Args:
        names: of frameworks; one that is not installed is left out.
        backends: on which cases are to run.

    Returns:
        Every check, in a fixed order.
    """
    installed = [name for name in names if frameworks()[name].installed()]
    checks = [*_settings(), *host_check.processors(), host_check.limits()]
    checks += [framework_check.compiled_files(name) for name in _with_files(installed)]
    checks += [framework_check.preloaded(name) for name in installed]
    checks += [framework_check.device(backend) for backend in backends if backend is not Backend.CPU]
    return checks


def main() -> int:
    """Print a table of every check.

    Returns:
        1 when something is off, else 0.
    """
    checks = examine(frameworks(), [backend for backend in Backend if devices.present(backend)])
    width = max(len(check.name) for check in checks)
    for check in checks:
        sys.stdout.write(f"{'ok ' if check.ok else 'OFF'}  {check.name:{width}}  {check.found}\n")
        if check.mend:
            sys.stdout.write(f"     {'':{width}}  mend: {check.mend}\n")
    return 0 if all(check.ok for check in checks) else 1


def _settings() -> list[Check]:
    host = [host_check.threads(os.environ), host_check.governor(), host_check.turbo(), host_check.load()]
    return [*framework_check.variables(os.environ), *host, host_check.swap()]


def _with_files(names: Iterable[str]) -> list[str]:
    """Keep the installed frameworks that have files of their own."""
    adapters = {name: frameworks()[name] for name in names}
    return [name for name, a in adapters.items() if a.MODULE not in sys.builtin_module_names and a.installed()]


if __name__ == "__main__":
    sys.exit(main())
