"""A flow whose worker was killed goes on: what it prints then has no reader, and it must not end for that."""

from __future__ import annotations

import os

from rich.console import Console


def outlive_worker() -> None:
    """Drop what is printed once nobody reads it any more.

    A worker reads what its flow prints from a pipe. Prefect's log goes through Rich, which exits a process that prints
    into a pipe without a reader: the run would crash at its next line, hours after its worker, with its device free and
    its server there.
    """

    def drop(console: Console) -> None:
        console.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)

    Console.on_broken_pipe = drop  # type: ignore[assignment, method-assign]
