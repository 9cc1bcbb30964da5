"""What can be wrong with a root of results, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from flows.holdings import Held, Holdings
from flows.layout import Kind, begun, marker_key, place

OPEN = timedelta(days=1)
"""A run or a compaction of this age that has not said that it is done is not going on any more."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that is not as it should be.

    Attributes:
        kind: missing, damaged, orphan, foreign, duplicate, incomplete, or marker.
        key: the file, or the run.
        found: what is wrong with it.
        mend: what to do.
    """

    kind: str
    key: str
    found: str
    mend: str


def aside(key: str, reason: str) -> Problem:
    """Say what to do about a file that the rule of reading has set aside.

    Args:
        key: of the file.
        reason: why it does not count.

    Returns:
        The problem.
    """
    kind, _, text = reason.partition(": ")
    where = place(key)
    if where is not None and where.kind is Kind.COMPACT:
        day = f"runs/date={where.day}/_compact-*.json"
        lost = f"where there is none, delete {day}: what is left of the raw files is read and compacted again"
    elif where is not None and where.kind is Kind.RAW:
        lost = f"where there is none, delete {marker_key(where.day, where.id)}: the run's other rows read as incomplete"
    else:
        lost = "where there is none, delete it"
    mends = {
        "missing": f"store a copy under this key, or jitmatrix upload on the machine that has it; {lost}",
        "damaged": f"delete it and store a copy under this key; {lost}",
        "foreign": "move it out of the root",
    }
    if kind in mends:
        return Problem(kind, key, text, mends[kind])
    if where is not None and where.kind is Kind.MANIFEST:
        return Problem("damaged", key, reason, "store copies of the files that are named here as missing or damaged")
    if where is not None and where.kind is Kind.COMPACT:
        return Problem("orphan", key, "a compaction that was killed has left it", "jitmatrix compact removes it")
    return Problem("orphan", key, reason, "delete it, or move it out of the root; none of its rows is read")


def at_work(key: str, now: datetime) -> bool:
    """Tell whether a file may belong to a compaction that is going on.

    Args:
        key: of the file.
        now: the time.

    Returns:
        Whether it is a compact file that is younger than a day.
    """
    where = place(key)
    return where is not None and where.kind is Kind.COMPACT and now - begun(where.id) < OPEN


def incomplete(found: Holdings, now: datetime) -> Iterator[Problem]:
    """Name the runs without a marker that do not seem to go on.

    Args:
        found: what the root holds.
        now: the time.

    Yields:
        A problem for each.
    """
    runs: dict[str, list[Held]] = {}
    for held in found.unmarked.values():
        runs.setdefault(held.place.id, []).append(held)
    for run, files in runs.items():
        # A run that goes on has files of timings alone; its own row comes at its end.
        if now - begun(run) < OPEN and all(file.place.table == "timings" and not file.place.partial for file in files):
            continue
        yield Problem(
            "incomplete",
            f"run {run}",
            f"{len(files)} files and no marker: it was interrupted, or is on its way to the root",
            f"jitmatrix bench --resume {run}, or jitmatrix upload, on the machine that ran it; or delete its files",
        )
