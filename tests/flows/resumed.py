"""A run of two cases that is killed at its next step: what the tests of resuming start as a process.

Run as ``python -m tests.flows.resumed ROOT STEP [RUN_ID]``. A step is a line of the journal or a file of results; the
process is killed before its STEP-th, or right after it where STEP is negative. With 0, nothing kills it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from flows import execution, store, tasks
from flows.journal import Journal
from flows.order import Order
from flows.progress import LineReporter
from flows.results import Run
from flows.resume import reopen
from kernels.selection import Filters

SAMPLING = {"rounds": 2, "budget_s": 0.02, "min_sample_ms": 1.0, "seed": 1}
FILTERS = Filters(kernel=("double", "total"), framework=("numpy",), dtype=("float64",), size=("S",))


def main(root: str, step: int, run_id: str | None) -> None:
    """Begin or go on with the run."""
    if run_id is None:
        run = Run(Order.of("seeds", FILTERS, SAMPLING, root), None)
        journal, _ = execution.begin(run)
    else:
        run, journal, _ = reopen(run_id, root)
    left = abs(step)

    def killing(act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and step > 0:
                os.kill(os.getpid(), signal.SIGKILL)
            done = act(*arguments)
            if left == 0 and step < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return wrapped

    Journal._append = killing(Journal._append)  # type: ignore[method-assign]
    Journal.remove = killing(Journal.remove)  # type: ignore[method-assign]
    store.publish = killing(store.publish)
    # Storage that is away is waited for, for two minutes: here not so long.
    execution.upload = functools.partial(execution.upload, patience_s=5.0)  # type: ignore[assignment]
    # Without a server: what is stored, and when, is the same.
    tasks.record = lambda name, work, return_state: work()  # type: ignore[assignment]
    with journal:
        execution.execute(execution.Summary(run), LineReporter(Console(stderr=True)), journal)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
