"""Run an image by hand, without rights and with its device; ``make run`` does.

Run as ``python -m containers.run [--extras torch] [--jax 0.11.0] gpu [COMMAND...]``; without a command the image's own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from containers.engine import Engine
from containers.variant import Variant
from kernels.errors import UsageError

HARDENING = (
    "--read-only",
    "--tmpfs=/tmp:rw,exec,mode=1777",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)
"""What a container need not: compiled code is loaded from /tmp, hence exec."""

VOLUME = "--volume=jitmatrix:/var/lib/jitmatrix"
"""Where the spool and the folder of results outlive a container."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the engine's process that runs a container.

    Args:
        arguments: of the command line; None takes those of the process.

    Returns:
        2 where nothing can be run; else it does not return.
    """
    parser = argparse.ArgumentParser(prog="python -m containers.run", allow_abbrev=False)
    parser.add_argument("backend", metavar="BACKEND", help="cpu, gpu or tpu")
    parser.add_argument("--extras", default="", help="frameworks beside the core set, separated by commas")
    parser.add_argument("--jax", default="", help="a version of JAX other than the lock's")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="in place of the image's own")
    options = parser.parse_args(arguments)
    try:
        variant = Variant.of(options.backend, options.extras, options.jax)
        words = command(Engine.here(runs=True), variant, options.words)
        os.execvp(words[0], words)
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2


def command(engine: Engine, variant: Variant, words: Sequence[str]) -> list[str]:
    """Give the command that runs an image.

    Args:
        engine: by what.
        variant: which.
        words: to be run in it; empty runs what the image runs by itself.

    Returns:
        The command.

    Raises:
        UsageError: the engine cannot hand over the device, or the image is not there.
    """
    device = engine.device_options(variant.backend)
    image = f"{variant.repository}:{variant.tag}"
    if subprocess.run([engine.name, "image", "inspect", image], capture_output=True, check=False).returncode != 0:
        given = {"BACKEND": variant.backend, "EXTRAS": ",".join(variant.extras), "JAX": variant.jax}
        make = " ".join(["make image", *(f"{name}={value}" for name, value in given.items() if value)])
        raise UsageError(f"there is no image {image} here: {make}")
    return [engine.name, "run", "--rm", *HARDENING, VOLUME, *device, image, *words]


if __name__ == "__main__":
    sys.exit(main())
