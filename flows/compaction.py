"""Compact the closed days of a root, and remove what that has replaced when its time is over."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from flows.holdings import Holdings, holdings
from flows.layout import Kind, place
from flows.removal import clear_day
from flows.replacement import Compacted, replace_day
from flows.storage import LocalRoot, Root
from kernels.errors import UsageError

KEEP_RAW_DAYS = 7.0
"""Days for which replaced files stay, unless one chooses."""

MARGIN = timedelta(hours=1)
"""A day is closed this long after its end, by the clock of whoever compacts it."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is to compact.

    Attributes:
        days: closed days with results.
        found: what the root holds.
        generations: the highest number that a manifest of each day had before.
        now: when it was looked at, in UTC.
    """

    days: list[date]
    found: Holdings
    generations: dict[date, int]
    now: datetime


def survey(root: Root, now: datetime | None = None) -> Survey:
    """Look at what there is to compact.

    Args:
        root: the root.
        now: the time; None takes the clock's.

    Returns:
        The closed days, and what is needed to compact them.

    Raises:
        UsageError: compactions of this root could undo each other.
        StorageError: it cannot be reached, or may not be written.
    """
    now = now or datetime.now(UTC)
    _ready(root)
    # Before the holdings: a manifest that comes between the two then has the key that this compaction wants.
    generations = _generations(root)
    found = holdings(root)
    days = {file.place.day for file in found.files.values()} | generations.keys()
    return Survey(sorted(day for day in days if _closed(day, now)), found, generations, now)


def compact_day(root: Root, day: date, seen: Survey, keep_raw_days: float = KEEP_RAW_DAYS) -> Compacted:
    """Compact a day, and remove what was replaced long enough ago.

    Args:
        root: the root.
        day: one of the survey's days.
        seen: the survey.
        keep_raw_days: days for which replaced files stay.

    Returns:
        What became of it.

    Raises:
        StorageError: the root cannot be read or written.
        UsageError: there is no room for the day in the temporary folder, or a local root refuses.
    """
    result = Compacted(day)
    try:
        replace_day(root, day, seen.generations.get(day, 0), seen.found, result)
        clear_day(root, day, timedelta(days=keep_raw_days), max(seen.now, datetime.now(UTC)), result)
    except OSError as error:
        raise UsageError(
            f"{error.filename or tempfile.gettempdir()}: {day} cannot be compacted ({error.strerror or error});"
            f" the results are as they were; files are copied to {tempfile.gettempdir()}, TMPDIR names another folder"
        ) from error
    return result


def _ready(root: Root) -> None:
    """See that compactions of a root cannot undo each other."""
    if isinstance(root, LocalRoot):
        return
    from flows.s3 import S3Root

    if isinstance(root, S3Root) and not root.honours.conditional:
        raise UsageError(
            f"{root.address}: the server ignores If-None-Match, and two compactions could undo each other;"
            " compact a local copy, or use a server that honours it"
        )


def _closed(day: date, now: datetime) -> bool:
    """Tell whether no run begins in a day any more."""
    end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    return now >= end + MARGIN


def _generations(root: Root) -> dict[date, int]:
    """Give the highest number that a manifest of each day has; days that were never compacted have none."""
    found: dict[date, int] = {}
    for stored in root.files("runs/"):
        where = place(stored.key)
        if where is not None and where.kind is Kind.MANIFEST:
            found[where.day] = max(found.get(where.day, 0), int(where.id))
    return found
