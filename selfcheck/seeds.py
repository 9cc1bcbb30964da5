"""seeds: the matrix that a newcomer runs first must end soon."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from selfcheck.figure import Report, at_most
from selfcheck.interleaved import NotMeasuredError


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run.

    Attributes:
        options: of ``jitmatrix bench``.
    """

    options: tuple[str, ...] = ("--matrix", "seeds")


QUICK = Settings(("--matrix", "smoke", "--kernel", "double", "--framework", "numpy"))


def measure(settings: Settings) -> Report:
    """Run the command as a user does, and time it from its start to its end.

    Args:
        settings: what is run.

    Returns:
        The wall time; when the first case was begun stands in the notes.

    Raises:
        NotMeasuredError: the command failed.
    """
    first = None
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as folder:
        command = [sys.executable, "-m", "flows.cli", "bench", *settings.options, "--results", folder]
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line.strip())
                if first is None and "-cpu" in line:
                    first = time.monotonic() - start
        wall = time.monotonic() - start
    if process.returncode != 0:
        raise NotMeasuredError(f"jitmatrix bench {' '.join(settings.options)} failed: {' / '.join(lines[-2:])}")
    told = "no case was begun" if first is None else f"first case begun after {first:.1f} s"
    return Report(
        (at_most(f"jitmatrix bench {' '.join(settings.options)}", wall, 180, " s"),), (told, lines[-1] if lines else "")
    )
