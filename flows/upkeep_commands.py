"""The commands `jitmatrix compact` and `jitmatrix verify`: few files for closed days, and whether a root is sound."""

from __future__ import annotations

import sys
import tempfile

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernels.errors import UsageError


def compact(*, results: str | None = None, keep_raw: float = 7.0) -> int:
    """Rewrite closed days into few files, while others write and read them; exit status 1 where files are damaged.

    Args:
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        keep_raw: days for which the files stay that were replaced.
    """
    from flows.compaction import compact_day, survey
    from flows.settings import settings
    from flows.storage import root

    if not keep_raw >= 0:
        raise UsageError(f"--keep-raw {keep_raw:g}: it is a number of days, 0 or more")
    target = root(results or settings().results)
    seen = survey(target)
    problems = 0
    for day in seen.days:
        result = compact_day(target, day, seen, keep_raw)
        problems += len(result.problems)
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()
    if not seen.days:
        sys.stdout.write(
            f"{target.address}: no closed day with results; a day is closed an hour after its end in UTC\n"
        )
    if problems:
        sys.stdout.write("jitmatrix verify says how to mend it\n")
    return 1 if problems else 0


def verify(*, results: str | None = None) -> int:
    """Hold every stored file against its marker, and count every row once; exit status 1 where something is wrong.

    Args:
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
    """
    from flows.settings import settings
    from flows.storage import root
    from flows.verify import verify as examine

    target = root(results or settings().results, to_read=True)
    try:
        found = examine(target)
    except OSError as error:
        folder = error.filename or tempfile.gettempdir()
        raise UsageError(
            f"{folder}: {error.strerror or error}; files are copied to {tempfile.gettempdir()}, TMPDIR names another"
        ) from error
    if found.problems:
        table = Table(box=None, header_style="bold")
        # A line a problem where it is no terminal: a file's name that is folded cannot be copied.
        for title in ("problem", "where", "found", "how to mend it"):
            table.add_column(title, no_wrap=not sys.stdout.isatty())
        for problem in found.problems:
            table.add_row(*(escape(text) for text in (problem.kind, problem.key, problem.found, problem.mend)))
        Console(width=None if sys.stdout.isatty() else 2000).print(table)
    sys.stdout.write(f"{target.address}: {found}\n")
    return 1 if found.problems else 0
