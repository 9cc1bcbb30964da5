"""The command `jitmatrix show`: a stored run in the terminal."""

from __future__ import annotations

import sys


def show(
    run: str = "latest",
    /,
    *,
    results: str | None = None,
    baseline: str = "numpy/eager",
) -> int:
    """Show a stored run in the terminal, with colour and bars where it can; plain where output is piped or in a file.

    Args:
        run: a run's id or its beginning, latest, latest~1, a day as YYYY-MM-DD, image:NAME; several with
            commas between are shown together.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        baseline: framework/mode that the others are compared with.
    """
    from rich.console import Console

    from flows.aside import tell
    from flows.report_data import gather
    from flows.settings import settings
    from flows.show import show as printed
    from flows.storage import root

    data = gather(root(results or settings().results, to_read=True), [run], baseline=baseline, history=False)
    tell(data.aside)
    # Where it is no terminal, lines are not cut to the width of one.
    printed(data, Console() if sys.stdout.isatty() else Console(width=200))
    return 0
