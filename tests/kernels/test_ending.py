"""How a process ended, in words."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kernels.ending import ending


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit(0)", "the process exited with status 0"),
        ("import os; os._exit(3)", "the process exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "the process died by SIGKILL"),
        (
            f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})",
            f"the process died by signal {signal.SIGRTMIN + 3}",
        ),
    ],
)
def test_a_process_that_ended_is_told_in_words(script, words):
    assert ending(subprocess.run([sys.executable, "-c", script], check=False).returncode) == words
