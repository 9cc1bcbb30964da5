"""Go on with a run that was killed or interrupted: what its journal holds is not measured again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from flows.journal import Journal, place
from flows.layout import begun, marker_key
from flows.layout import place as place_of
from flows.order import Order
from flows.results import Run
from flows.spool import Spool, spool
from flows.storage import Root, StorageError, root
from flows.upload import PATIENCE_S
from kernels import device_lock
from kernels.errors import UsageError
from kernels.run import Past

_LONGEST_WAIT = timedelta(days=31)
"""Between the making of a run's id and its begin."""


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


def reopen(run_id: str, results: str) -> tuple[Run, Journal, list[str]]:
    """Open an unfinished run.

    Args:
        run_id: its id.
        results: the root that it was to write to.

    Returns:
        The run as it was begun; its journal, which no other process can open until it is closed; and what is to be
        said of the storage.

    Raises:
        UsageError: there is no such run, it is still going, or what it was begun with is no longer so; the device
            cannot be locked.
    """
    try:
        wanted = str(uuid.UUID(run_id))
    except ValueError:
        raise UsageError(f"--resume {run_id}: no id of a run; it is printed when a run is interrupted") from None
    path = place(spool(root(results)).folder, wanted)
    device_lock.check()
    try:
        journal = Journal(path)
    except OSError as error:
        raise UsageError(f"--resume {run_id}: {path} cannot be opened ({error.strerror})") from error
    try:
        begun = journal.story.head
        order = Order.from_parameters({**begun["parameters"], "results": results})
        run = Run(order, begun["command"], wanted, datetime.fromisoformat(begun["started_at"]))
        for what, now in _unchanged(run).items():
            if begun[what] != now:
                raise UsageError(
                    f"--resume {run_id}: its {what} was {begun[what]} and is {now} now; one run has one, start anew"
                )
        own, marker = spool(order.root), marker_key(run.started_at.date(), run.id)
        if own.path(marker).is_file() or _has(order.root, marker):
            # It was killed right after its last file.
            journal.remove()
            raise UsageError(f"--resume {run_id}: this run came to its end, and all of it is stored in {own.folder}"
                             f" or {order.root.address}; jitmatrix upload sends what waits")  # fmt: skip
        notes = _retract(journal, order.root, own)
    except BaseException:
        journal.__exit__(None, None, None)
        raise
    return run, journal, notes


class Fate(StrEnum):
    """What became of a run whose id somebody has chosen."""

    UNKNOWN = "unknown"
    UNFINISHED = "unfinished"
    ENDED = "ended"


def chosen(run_id: str, results: str) -> Fate:
    """Find out what became of a run, by its id.

    Args:
        run_id: a UUIDv7, as whoever submits a run has made it.
        results: the root that it writes to.

    Returns:
        What is known of it here and under the root.

    Raises:
        UsageError: that is no UUIDv7, or the root is none.
        StorageError: the root cannot be read, for a reason that will not go away by itself.
    """
    try:
        version = uuid.UUID(run_id).version if str(uuid.UUID(run_id)) == run_id else None
    except ValueError:
        version = None
    if version != 7:
        raise UsageError(f"run {run_id}: no UUIDv7 in lower case; leave it out, and a new run makes its own")
    target = root(results)
    own = spool(target)
    if place(own.folder, run_id).is_file():
        return Fate.UNFINISHED
    day, today = begun(run_id).date(), datetime.now(UTC).date()
    if today - day > _LONGEST_WAIT:
        raise UsageError(f"run {run_id}: its id was made on {day}; choose a new one, as sweep does")
    # A run stands under the day on which it began, and may have waited for its worker since its id was made.
    while day <= today:
        key = marker_key(day, run_id)
        if own.path(key).is_file() or _has(target, key):
            return Fate.ENDED
        day += timedelta(days=1)
    return Fate.UNKNOWN


def past(journal: Journal) -> Past:
    """Give what a journal holds of measurements.

    Args:
        journal: the journal.

    Returns:
        What need not be measured again.
    """
    story = journal.story
    return Past(story.turns, story.rooflines, story.startups)


def _has(target: Root, key: str) -> bool:
    """Tell whether a root holds a key; one that is away is asked again when results are sent."""
    try:
        return target.sha256(key) is not None
    except StorageError as error:
        if not error.away:
            raise
        return False


def _retract(journal: Journal, target: Root, own: Spool) -> list[str]:
    """Take back the rows of cases that were cut short: they are measured whole now.

    What cannot be removed there is in no marker, and readers set it aside by name.
    """
    keys = [key for key in journal.story.files if (found := place_of(key)) is not None and found.partial]
    if not keys:
        return []
    with own.locked(PATIENCE_S):
        # In the spool first, and under its lock: an upload would bring back what is removed there.
        own.remove(keys)
        try:
            for key in keys:
                target.delete(key)
        except StorageError as error:
            return [f"{error}; partial rows of the run stay there, and are not counted"]
    journal.retracted(keys)
    return []


def _unchanged(run: Run) -> Mapping[str, str | None]:
    return {
        "plan": run.plan()[1],
        "machine": run.fingerprint,
        "commit": run.environment.commit,
        "version": run.version,
    }
