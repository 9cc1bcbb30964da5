"""Which runs somebody means: ids and their beginnings, the latest, a day, an image, a file; nothing of Prefect."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import duckdb

from flows import schema
from flows.query import looked
from flows.storage import Root
from flows.timings_file import is_file, read_file
from kernels.errors import UsageError
from kernels.progress import number

FORMS = "a run's id or its beginning, latest, latest~1, a day as YYYY-MM-DD, image:NAME, or a .parquet file"
"""What a reference may be, in words."""

_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_IMAGE = "image:"
_CHOICES = 5

_RUNS = "from runs order by started_at desc nulls last, run_id desc"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is stored.

    Attributes:
        id: UUIDv7.
        started_at: its begin, in UTC.
        complete: whether its marker is there and it ended by itself.
        row: its row of ``runs``; what was not stored is missing or None.
        version: of the schema it was written with, as its marker says; None where that is not known.
    """

    id: str
    started_at: datetime | None
    complete: bool
    row: dict[str, Any]
    version: int | None = None

    @property
    def image(self) -> str:
        """The container image; empty where none ran."""
        return self.row.get("image") or ""

    @property
    def tried(self) -> bool:
        """Whether a case of it was tried: not where no machine took it, and not where all of it was left out."""
        return self.row.get("machine") is not None and (self.row.get("ok"), self.row.get("failed")) != (0, 0)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends that it was asked to measure on."""
        plan = json_of(self.row.get("plan"))
        return tuple((plan.get("filters") or {}).get("backend") or (plan.get("matrix") or {}).get("backends") or ())

    def __str__(self) -> str:
        when = f"{self.started_at:%Y-%m-%d %H:%M}" if self.started_at else "no time known"
        words = [when, self.row.get("matrix") or "", "" if self.complete else "incomplete"]
        return f"{self.id} ({', '.join(word for word in words if word)})"


def resolve(root: Root, text: str, backend: str | None = None) -> list[str]:
    """Find the runs that somebody means.

    Args:
        root: of the results.
        text: a run's id or a beginning of it that no other has; ``latest`` or ``latest~1``, the newest complete run or
            the one before it; a day in UTC, for the newest complete run begun on it; ``image:NAME``, for the newest
            complete run in that image; a Parquet file of timings, here or below the root; several with commas
            between, for all of their runs together.
        backend: where the newest is asked for, look at runs of this backend alone.

    Returns:
        Ids, in the order of the text, each once.

    Raises:
        UsageError: there is no such run, it is incomplete, or the root holds none; the message has the nearest.
        StorageError: the root cannot be read.
    """
    known: list[StoredRun] | None = None
    found: list[str] = []
    for each in parts(text):
        if is_file(each):
            found += sorted(set(read_file(root, each)["run_id"].to_pylist()))
        else:
            known = stored_runs(root) if known is None else known
            found.append(find(known, each, root.address, backend).id)
    return list(dict.fromkeys(found))


def stored_runs(root: Root) -> list[StoredRun]:
    """List the runs of a root.

    Args:
        root: of the results.

    Returns:
        The runs, the newest first.

    Raises:
        StorageError: the root cannot be read.
    """

    def rows(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = connection.sql(_RUNS).to_arrow_table().to_pylist()
        return found

    found, reading = looked(root, rows)
    versions = {file.place.id: file.version for file in reading.files if file.version is not None}
    return [
        StoredRun(
            id=row["run_id"],
            started_at=row["started_at"],
            complete=row["status"] == "complete",
            row=row,
            version=versions.get(row["run_id"]),
        )
        for row in found
    ]


def find(runs: Sequence[StoredRun], text: str, where: str, backend: str | None = None) -> StoredRun:
    """Find the one run that a reference means.

    Args:
        runs: all that there are, the newest first.
        text: a reference that is no file.
        where: the root's address, for the message.
        backend: that the newest is looked for among.

    Returns:
        A complete run, of a schema version that is known here.

    Raises:
        UsageError: there is none.
    """
    if not runs:
        raise UsageError(f"{where}: there are no results yet; measure some with jitmatrix bench")
    run = _newest(runs, text, where, backend) if _asks_newest(text) else _by_id(runs, text, where)
    if not run.complete:
        raise UsageError(
            f"run {run.id} is incomplete, and is not compared: jitmatrix bench --resume {run.id} ends it on "
            f"the machine that ran it; complete are {_nearest(text, [each for each in runs if each.complete])}"
        )
    if run.version is not None and run.version > schema.VERSION:
        raise UsageError(
            f"run {run.id} was written with version {run.version} of the schema, this jitmatrix knows "
            f"{schema.VERSION}: compare with the jitmatrix that wrote it, or a newer one"
        )
    return run


def json_of(text: str | None) -> dict[str, Any]:
    """Read a column of JSON.

    Args:
        text: what is stored; None where nothing is.

    Returns:
        The mapping; an empty one where there is none, as where another program wrote what is no JSON.
    """
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def parts(text: str) -> list[str]:
    """Take references apart.

    Args:
        text: one, or several with commas between.

    Returns:
        Each, without space around it.

    Raises:
        UsageError: one of them is empty, as where a shell's variable is not set.
    """
    found = [part.strip() for part in text.split(",")]
    if not all(found) or _IMAGE in found:
        raise UsageError(f"{text!r} names no run; give {FORMS}")
    return found


def _asks_newest(text: str) -> bool:
    return bool(_LATEST.fullmatch(text) or _DAY.fullmatch(text) or text.startswith(_IMAGE))


def _newest(runs: Sequence[StoredRun], text: str, where: str, backend: str | None) -> StoredRun:
    """Find the newest complete run that tried a case, or the one so many before it, of all or of a day or an image."""
    whole = [run for run in runs if run.complete and run.tried and (backend is None or backend in run.backends)]
    of = f" of {backend}" if backend else ""
    back, among, what = 0, whole, f"{where} has {number(len(whole), 'complete run')}{of}"
    if latest := _LATEST.fullmatch(text):
        back = int(latest[1] or 0)
    elif _DAY.fullmatch(text):
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise UsageError(f"{text}: there is no such day; give {FORMS}") from None
        among = [run for run in whole if run.started_at is not None and run.started_at.date() == day]
        what = f"no complete run{of} began on {text} (UTC)"
    else:
        name = text.removeprefix(_IMAGE)
        among = [run for run in whole if run.image == name]
        images = dict.fromkeys(run.image for run in whole if run.image)
        there = f"there are runs in {', '.join(images)}" if images else "none ran in any"
        what = f"no complete run{of} in this image; {there}"
    if back < len(among):
        return among[back]
    raise UsageError(f"{text}: {what}; {_offer(whole)}")


def _by_id(runs: Sequence[StoredRun], text: str, where: str) -> StoredRun:
    named = [run for run in runs if run.id.startswith(text.lower())]
    exact = [run for run in named if run.id == text.lower()]
    if len(exact or named) == 1:
        return (exact or named)[0]
    if named:
        more = f" and {len(named) - _CHOICES} more" if len(named) > _CHOICES else ""
        raise UsageError(f"{text}: {len(named)} runs begin so, {_listed(named[:_CHOICES])}{more}; give more of the id")
    raise UsageError(f"{text}: {where} has no such run; the nearest are {_nearest(text, runs)}; give {FORMS}")


def _nearest(text: str, runs: Sequence[StoredRun]) -> str:
    """Name the runs whose ids are like the text, or the newest where none is."""
    ids = difflib.get_close_matches(text.lower(), [run.id for run in runs], n=_CHOICES, cutoff=0.5)
    chosen = [run for run in runs if run.id in ids] or list(runs[:_CHOICES])
    return _listed(chosen) if chosen else "none"


def _offer(runs: Sequence[StoredRun]) -> str:
    return f"the newest complete ones are {_listed(runs[:_CHOICES])}" if runs else "there is no complete run"


def _listed(runs: Iterable[StoredRun]) -> str:
    return ", ".join(str(run) for run in runs)
