"""What is printed when a run is over: the table, what became of every cell, and how to read the files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape

from flows.execution import Summary
from flows.results import counts
from flows.storage import LocalRoot
from flows.table import result_table
from kernels.measurement import Status
from kernels.progress import reasons

WIDE = 118
"""Columns from which on the table has room for its intervals."""


def closing(summary: Summary, width: int) -> Iterator[RenderableType]:
    """Compose the end of a run.

    Args:
        summary: what the run left behind.
        width: columns of the terminal.

    Yields:
        The table; planned = ok + failed + skipped, with reasons; the files and a line to read them.
    """
    yield result_table(summary.measurements, width >= WIDE)
    yield ""
    for line in reasons(row for row in summary.measurements if row.status is not Status.OK):
        yield f"  {escape(line)}"
    found = counts(summary.measurements, summary.run.order.filters)
    yield "[bold]{planned} planned = {ok} ok + {failed} failed + {skipped} skipped[/bold]".format(**found)
    for warning in summary.run.warnings:
        yield f"[yellow]warning[/yellow]: {escape(warning)}"
    target, first = summary.run.order.root, addresses(summary)[0]
    # The first folder is that of timings; a long run has several files there.
    others = sum(path.parents[1] == summary.files[0].parents[1] for path in summary.files) - 1
    yield f"timings: {escape(first)}{f' and {others} more of this run' if others else ''}"
    if first.startswith(f"{target.address}/") and not isinstance(target, LocalRoot):
        yield escape(f"read them: jitmatrix query runs --results {shlex.quote(target.address)}")
        return
    python = shlex.quote(sys.executable)
    # This run's files alone: over all of a folder, what compactions keep twice would be counted twice.
    query = f"select case_id, median_ns from '{summary.files[0].parent}/{summary.run.id}-*' where phase = 'steady'"
    yield escape(f'read them: {python} -c "import duckdb; print(duckdb.sql(\\"{query}\\"))"')
    root = str(summary.files[0].parents[2])
    yield escape(f"or all that is there: jitmatrix query phases --results {shlex.quote(root)}")


def addresses(summary: Summary) -> list[str]:
    """Say where the Parquet files of a run are.

    Args:
        summary: what the run left behind.

    Returns:
        Timings first: an address under the root for what was sent, and a path for what is or still waits here.
    """
    target = summary.run.order.root
    return [
        str(path)
        if isinstance(target, LocalRoot) or path.exists()
        else f"{target.address}/{path.relative_to(path.parents[2]).as_posix()}"
        for path in summary.files
    ]


def profile(summary: Summary, started: float) -> Iterator[str]:
    """Say what a run spent its time on.

    Args:
        summary: what the run left behind.
        started: when the command started, in seconds of the monotonic clock.

    Yields:
        Lines: time to the first case, what Prefect's tasks cost, and medians over processes of the framework's part,
        the calls and the harness.
    """
    yield f"first case after {summary.first_case - started:.1f} s"
    yield str(summary.overhead)
    yield from summary.profile.lines()
