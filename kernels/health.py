"""Health: one real operation on a backend, in a fresh interpreter; what a container's health check runs.

Run as ``python -m kernels.health [BACKEND]``; without a name the image's own backend, ``JITMATRIX_BACKEND``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernels import case, image, machine, startup
from kernels.case import Backend
from kernels.errors import UnavailableError, UsageError

FRAMEWORK = "jax"
"""The framework that every image has for its backend."""


def main(arguments: Sequence[str]) -> int:
    """Compile and run JAX's first program on a backend, and say so in one line.

    Args:
        arguments: the backend's name, or nothing.

    Returns:
        0 where the backend computes, 1 where it does not, 2 where there is none of that name.
    """
    try:
        if len(arguments) > 1:
            raise UsageError(f"give one backend, or none for that of {image.VARIABLE}")
        backend = case.backend(arguments[0], "health") if arguments else image.backend() or Backend.CPU
        reading = startup.measure(FRAMEWORK, backend, len(machine.affinity()))
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    except UnavailableError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 1
    sys.stdout.write(f"{FRAMEWORK} computes on {backend}: ready after {reading.samples[0] / 1e9:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
