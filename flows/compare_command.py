"""The command `jitmatrix compare`: what takes longer than before; a gate for continuous integration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kernels.errors import UsageError


def compare(
    baseline: str,
    candidate: str = "latest",
    /,
    *,
    results: str | None = None,
    smallest: float = 0.05,
    phase: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    backend: str | None = None,
    across_machines: Annotated[bool, Parameter(negative="")] = False,
    format: Literal["table", "json", "markdown"] = "table",
    markdown: Path | None = None,
    junit: Path | None = None,
) -> int:
    """Compare two runs, case by case; exit status 1 where something takes longer or fails that was ok.

    A run is named by its id or the beginning of it, latest, latest~1 (the one before), a day as YYYY-MM-DD (its last
    complete run), image:NAME (the last in that image), or a .parquet file; several with commas between are one side.

    Args:
        baseline: what to compare with.
        candidate: what is compared.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        smallest: the least relative difference that matters.
        phase: decide on this phase, instead of steady and first_call; may be repeated. The others are shown.
        backend: compare the cases of this backend alone.
        across_machines: compare runs of different machines too, and say so.
        format: table for people; json or markdown for programs.
        markdown: also write a summary for a pull request into this file.
        junit: also write a JUnit file.
    """
    from flows import comparison_formats as formats
    from flows.cli import terminal
    from flows.compare import GATE
    from flows.compare import compare as compared
    from flows.settings import settings
    from flows.storage import root

    for option, file in (("--markdown", markdown), ("--junit", junit)):
        if file is None:
            continue
        nearest = next(folder for folder in file.absolute().parents if folder.exists())
        if file.is_dir() or not nearest.is_dir():
            raise UsageError(f"{option} {file}: no file can be written there; name a file in a folder")
    found = compared(
        root(results or settings().results, to_read=True),
        baseline,
        candidate,
        smallest=smallest,
        phases=phase or GATE,
        across_machines=across_machines,
        backend=backend,
    )
    for option, file, write in (("--markdown", markdown, formats.markdown), ("--junit", junit, formats.junit)):
        if file is not None:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(write(found), encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{option} {file}: cannot be written ({error.strerror or error})") from None
    if format == "table":
        formats.show(found, terminal())
    else:
        sys.stdout.write({"json": formats.javascript, "markdown": formats.markdown}[format](found))
    return 0 if found.passed else 1
