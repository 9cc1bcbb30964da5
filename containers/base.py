"""Make a base image from Debian packages, for machines that reach no image registry: ``python -m containers.base``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from containers.engine import Engine
from kernels.errors import UsageError

NAME = "localhost/jitmatrix-base:trixie"
"""Of the image; ``make image BASE=…`` takes it."""

RELEASE = "trixie"
"""Of Debian, whose python3 is 3.13."""

_HOOKS = (
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/apt/*',
    'rm -f "$1"/etc/resolv.conf "$1"/etc/hostname',
    'ln -sf python3 "$1"/usr/bin/python',
)


def main() -> int:
    """Make the image, where it is not there.

    Returns:
        0, 2 where it cannot be made, or 130 where that was interrupted.
    """
    try:
        make(Engine.here(runs=True))
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{NAME}\n")
    return 0


def make(engine: Engine) -> None:
    """Make the image, where it is not there.

    Args:
        engine: that is to have it.

    Raises:
        UsageError: mmdebstrap is not there, or cannot make it.
    """
    if subprocess.run([engine.name, "image", "inspect", NAME], capture_output=True, check=False).returncode == 0:
        return
    if shutil.which("mmdebstrap") is None:
        raise UsageError(
            "mmdebstrap is not on PATH: apt-get install mmdebstrap, or give a base image: make image BASE=…"
        )
    with tempfile.TemporaryDirectory(prefix="jitmatrix-base-") as folder:
        archive = Path(folder) / "base.tar"
        unwanted = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        command = ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates,tzdata"]
        command += [*unwanted, *(f"--customize-hook={hook}" for hook in _HOOKS), RELEASE, str(archive)]
        for words in (command, [engine.name, "import", '--change=CMD ["python3"]', str(archive), NAME]):
            done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
            if done.returncode != 0:
                lines = done.stderr.strip().splitlines()
                raise UsageError(f"{words[0]}: {lines[-1] if lines else 'it said nothing'}")


if __name__ == "__main__":
    sys.exit(main())
