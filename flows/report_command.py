"""The command `jitmatrix report`: one HTML file about stored runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernels.errors import UsageError


def report(
    *,
    run: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    since: str | None = None,
    results: str | None = None,
    to: Path = Path("report.html"),
    figures: Path | None = None,
    baseline: str = "numpy/eager",
) -> int:
    """Write a report of stored runs: one HTML file that opens from disk and needs no network.

    Args:
        run: a run's id or its beginning, latest, latest~1, a day, image:NAME; may be repeated. Without it, the newest
            complete run of each case.
        since: instead, all complete runs begun on this day (YYYY-MM-DD, UTC) or later; 7d takes the last seven days.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        to: the file; one that is there is replaced.
        figures: a folder to write each figure to as well, as SVG and PNG.
        baseline: framework/mode that the others are compared with.
    """
    from flows.aside import tell
    from flows.durable import publish
    from flows.report_data import gather
    from flows.report_page import page
    from flows.report_pictures import draw
    from flows.settings import settings
    from flows.storage import root

    if to.exists() and not to.is_file():
        # A terminal or a pipe, such as /dev/stdout, would be replaced by a file.
        raise UsageError(f"--to {to}: it is no file; name one that can be written, or a new one")
    target = root(results or settings().results, to_read=True)
    data = gather(target, run or (), since, baseline)
    tell(data.aside)
    option, path = "--to", to
    try:
        publish(to.resolve(), page(data, target.address).encode())
        sys.stdout.write(f"{to}: {data.counted}\n")
        if figures is not None:
            option, path = "--figures", figures
            sys.stdout.write(f"{figures}: {len(draw(data, figures))} pictures\n")
    except OSError as error:
        what = "file" if option == "--to" else "folder"
        raise UsageError(f"{option} {path}: {error.strerror or error}; name a {what} that can be written") from None
    return 0
