"""The command `jitmatrix query`: questions about stored results."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from kernels.errors import UsageError

Format = Literal["table", "csv", "json", "parquet"]


def query(
    question: str | None = None,
    /,
    *,
    results: str | None = None,
    format: Format = "table",
    set: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
) -> int:
    """Ask stored results, in a folder or in S3: a ready question by its name, or SQL. Without one, list the questions.

    Args:
        question: name of a ready question, or a SELECT over the views timings, runs, plans, samples, latest, cases.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        format: table for people; csv, json or parquet for programs.
        set: a parameter of the question, as name=value, such as baseline=numba/njit; may be repeated.
    """
    from flows.answers import TEXT, parquet
    from flows.aside import tell
    from flows.query import ask, parameters
    from flows.settings import settings
    from flows.storage import root

    if question is None:
        _list()
        return 0
    if format == "parquet" and sys.stdout.isatty():
        raise UsageError("--format parquet: a terminal cannot show it; write it to a file: jitmatrix query … > FILE")
    found = ask(root(results or settings().results, to_read=True), question, parameters(set or ()))
    tell(found.aside)
    if not found.files:
        sys.stderr.write("jitmatrix: there are no results yet\n")
    try:
        if format == "parquet":
            parquet(found.table, sys.stdout.buffer)
        else:
            TEXT[format](found.table, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as head does. What is still in the buffer has nowhere to go at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _list() -> None:
    from flows.questions import questions

    known = questions()
    width = max(map(len, known))
    for name, question in known.items():
        sys.stdout.write(f"{name:{width}}  {question.title}\n")
        for parameter, choice in question.parameters.items():
            sys.stdout.write(f"{'':{width}}  --set {parameter}={choice.default}: {choice.text}\n")
