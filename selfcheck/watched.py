"""A command in a process of its own, watched from outside: when it said what, and how much memory it had then."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfcheck.interleaved import NotMeasuredError


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a command's standard error.

    Attributes:
        after_s: seconds from the command's start.
        line: the line.
        nbytes: resident size of its process then; 0 where that was gone.
    """

    after_s: float
    line: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A command that is over.

    Attributes:
        said: its lines.
        wall_s: seconds from its start to its end.
    """

    said: Sequence[Said]
    wall_s: float

    def matching(self, pattern: str) -> list[Said]:
        """Choose lines.

        Args:
            pattern: a regular expression that is found in them.

        Returns:
            The lines, in order.

        Raises:
            NotMeasuredError: there is none.
        """
        found = [said for said in self.said if re.search(pattern, said.line)]
        if not found:
            raise NotMeasuredError(f"no line with {pattern} was written; the last: {self.said[-1:]}")
        return found


def watch(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Watched:
    """Run a command to its end.

    Args:
        command: the command.
        folder: to run it in.
        variables: of its environment, beside those of this process.

    Returns:
        What it said.

    Raises:
        NotMeasuredError: it ended otherwise than with exit status 0.
    """
    start = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = [Said(time.monotonic() - start, line.rstrip(), _resident(process.pid)) for line in process.stderr]
    if process.returncode != 0:
        last = " / ".join(each.line for each in said[-3:]) or "nothing was said"
        raise NotMeasuredError(f"{' '.join(command[:4])} ended with exit status {process.returncode}: {last}")
    return Watched(said, time.monotonic() - start)


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
