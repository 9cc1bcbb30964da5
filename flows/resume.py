"""Go on with a run that was killed or interrupted: what its journal holds is not measured again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flows.journal import Journal, place
from flows.order import Order
from flows.results import Run
from flows.spool import spool
from flows.storage import Root, root
from flows.store import marker_of, partial
from kernels.errors import UsageError
from kernels.run import Past


def head(run: Run) -> dict[str, Any]:
    """Say what a run is begun with, for the first line of its journal.

    Args:
        run: the run.

    Returns:
        Plain values: what is needed to begin it again, and what must not have changed then.
    """
    return {
        "run_id": run.id,
        "started_at": run.started_at.isoformat(),
        "command": run.command,
        "parameters": run.order.parameters(),
        **_unchanged(run),
    }


def reopen(run_id: str, results: str) -> tuple[Run, Journal]:
    """Open an unfinished run.

    Args:
        run_id: its id.
        results: the root that it was to write to.

    Returns:
        The run as it was begun, and its journal, which no other process can open until it is closed.

    Raises:
        UsageError: there is no such run, it is still going, or what it was begun with is no longer so.
    """
    try:
        wanted = str(uuid.UUID(run_id))
    except ValueError:
        raise UsageError(f"--resume {run_id}: no id of a run; it is printed when a run is interrupted") from None
    journal = Journal(place(spool(root(results)).folder, wanted))
    try:
        begun = journal.story.head
        order = Order.from_parameters({**begun["parameters"], "results": results})
        run = Run(order, begun["command"], wanted, datetime.fromisoformat(begun["started_at"]))
        for what, now in _unchanged(run).items():
            if begun[what] != now:
                raise UsageError(
                    f"--resume {run_id}: its {what} was {begun[what]} and is {now} now; one run has one, start anew"
                )
        own, marker = spool(order.root), marker_of(run)
        if own.path(marker).is_file() or order.root.sha256(marker):
            # It was killed right after its last file.
            journal.remove()
            raise UsageError(f"--resume {run_id}: this run came to its end, and all of it is stored in {own.folder}"
                             f" or {order.root.address}; jitmatrix upload sends what waits")  # fmt: skip
        _retract(journal, order.root)
    except BaseException:
        journal.__exit__(None, None, None)
        raise
    return run, journal


def past(journal: Journal) -> Past:
    """Give what a journal holds of measurements.

    Args:
        journal: the journal.

    Returns:
        What need not be measured again.
    """
    story = journal.story
    return Past(story.turns, story.rooflines, story.startups)


def _retract(journal: Journal, target: Root) -> None:
    """Take back the rows of cases that were cut short: they are measured whole now."""
    keys = [key for key in journal.story.files if partial(key)]
    for key in keys:
        target.delete(key)
    if keys:
        spool(target).remove(keys)
        journal.retracted(keys)


def _unchanged(run: Run) -> Mapping[str, str | None]:
    return {
        "plan": run.plan()[1],
        "machine": run.machine.fingerprint,
        "commit": run.environment.commit,
        "version": run.version,
    }
