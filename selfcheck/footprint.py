"""Peak memory of writing and of compacting, each in a process of its own: ``python -m selfcheck.footprint``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from selfcheck.interleaved import NotMeasuredError


def peak_nbytes(what: str, *arguments: str) -> int:
    """Do something in a new process.

    Args:
        what: write or compact.
        arguments: of it.

    Returns:
        The process's peak resident size, in bytes.

    Raises:
        NotMeasuredError: it failed.
    """
    command = [sys.executable, "-m", "selfcheck.footprint", what, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasuredError(f"{what} failed: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    return int(done.stdout)


def _write(folder: str, runs: str, kernels: str) -> None:
    from selfcheck.dataset import Shape, batches, new_runs, write

    shape = Shape(int(runs), int(kernels))
    for run in new_runs(shape.runs):
        write(Path(folder), run, batches(run, shape))


def _compact(folder: str) -> None:
    from flows.compaction import compact_day, survey
    from flows.storage import LocalRoot

    root = LocalRoot(Path(folder))
    seen = survey(root)
    for day in seen.days:
        compact_day(root, day, seen)


if __name__ == "__main__":
    work: Callable[..., None] = _write if sys.argv[1] == "write" else _compact
    work(*sys.argv[2:])
    # Of this process alone: the peak that getrusage tells begins with that of the process that started it.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    sys.stdout.write(str(int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024))
