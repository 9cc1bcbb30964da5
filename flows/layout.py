"""The layout of results: what a key says of its file, and what markers and manifests say of files."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from flows.schema import VERSION

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY = re.compile(
    r"(?P<table>timings|runs)/date=(?P<day>\d{4}-\d{2}-\d{2})/"
    rf"(?:(?P<run>{_UUID})(?:-(?P<part>{_UUID}|partial))?\.parquet|compact-(?P<compact>{_UUID})\.parquet"
    rf"|_(?P<marker>{_UUID})\.json|_compact-(?P<generation>\d{{6}})\.json)"
)


PLANS = "plans/"
"""Plans of sweeps stand below it, each under its own hash."""

REPORTS = "reports/"
"""Reports stand below it, by the day on which they were written; in the order of their keys the newest is the last."""

_REPORT = re.compile(rf"{REPORTS}date=\d{{4}}-\d{{2}}-\d{{2}}/{_UUID}\.html")


class Kind(StrEnum):
    """What a file of results is."""

    RAW = "raw"
    COMPACT = "compact"
    MARKER = "marker"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class Place:
    """What a key says.

    Attributes:
        table: timings or runs.
        day: the UTC day on which the run began.
        kind: what the file is.
        id: of the run, or of the compaction that wrote a compact file; the generation of a manifest.
        partial: whether it holds what a run had measured when it was suspended.
    """

    table: str
    day: date
    kind: Kind
    id: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What a marker or a manifest says of a Parquet file.

    Attributes:
        key: the file's key.
        nbytes: its size.
        sha256: its hash, in hexadecimal digits.
        rows: its rows.
    """

    key: str
    nbytes: int
    sha256: str
    rows: int

    @property
    def table(self) -> str:
        """The table that its rows belong to: timings or runs."""
        return self.key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a compaction made of a day: from the moment it is stored, its files hold the rows of those it replaces.

    Attributes:
        generation: the newest counts; older ones and their files are superseded.
        compacted_at: when it was made, in UTC.
        files: the compact files, one of each table.
        replaces: keys that count no more: the raw files whose rows they hold, and compact files of earlier generations.
        runs: ids of the runs that they hold whole.
    """

    generation: int
    compacted_at: datetime
    files: tuple[Entry, ...]
    replaces: tuple[str, ...]
    runs: tuple[str, ...]

    def to_json(self) -> bytes:
        """Write it out.

        Returns:
            The content of its file.
        """
        content = {"schema_version": VERSION, **asdict(self), "compacted_at": self.compacted_at.isoformat()}
        return (json.dumps(content, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Read one.

        Args:
            content: of its file.

        Returns:
            The manifest.

        Raises:
            ValueError: it is none.
        """
        try:
            found = json.loads(content)
            return cls(
                int(found["generation"]),
                datetime.fromisoformat(found["compacted_at"]).astimezone(UTC),
                entries(found["files"]),
                tuple(str(key) for key in found["replaces"]),
                tuple(str(run) for run in found["runs"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("no manifest of a compaction") from error


def read_marker(content: bytes) -> tuple[Entry, ...]:
    """Read a run's marker.

    Args:
        content: of its file.

    Returns:
        What it says of the run's files.

    Raises:
        ValueError: it is none.
    """
    try:
        return entries(json.loads(content)["files"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no marker of a run") from error


def entries(found: Iterable[dict[str, Any]]) -> tuple[Entry, ...]:
    """Read what a marker or a manifest says of files.

    Args:
        found: a mapping for each file.

    Returns:
        The entries.
    """
    return tuple(Entry(str(f["key"]), int(f["nbytes"]), str(f["sha256"]), int(f["rows"])) for f in found)


def place(key: str) -> Place | None:
    """Say what a key says of its file.

    Args:
        key: relative to the root.

    Returns:
        Its place in the layout; None where it has none below ``timings/`` or ``runs/``.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    try:
        day = date.fromisoformat(found["day"])
    except ValueError:
        return None
    table = found["table"]
    if found["run"]:
        # A file of timings has a part of its own; the run's row has none, or is that of a suspended run.
        if (found["part"] is None) if table == "timings" else (found["part"] not in {None, "partial"}):
            return None
        return Place(table, day, Kind.RAW, found["run"], found["part"] == "partial")
    if found["compact"]:
        return Place(table, day, Kind.COMPACT, found["compact"])
    if table != "runs":
        return None
    if found["marker"]:
        return Place(table, day, Kind.MARKER, found["marker"])
    return Place(table, day, Kind.MANIFEST, found["generation"])


def marker_key(day: date, run_id: str) -> str:
    """Give the key of a run's marker.

    Args:
        day: the UTC day on which the run began.
        run_id: the run's id.

    Returns:
        The key.
    """
    return f"runs/date={day}/_{run_id}.json"


def plan_key(sha256: str) -> str:
    """Give the key of a sweep's plan.

    Args:
        sha256: of the plan.

    Returns:
        The key.
    """
    return f"{PLANS}{sha256}.parquet"


def report_key(day: date, identity: str) -> str:
    """Give the key of a report.

    Args:
        day: the UTC day on which it is written.
        identity: a UUIDv7 of that moment.

    Returns:
        The key.
    """
    return f"{REPORTS}date={day}/{identity}.html"


def is_report(key: str) -> bool:
    """Tell whether a key is that of a report.

    Args:
        key: relative to the root.

    Returns:
        Whether it is.
    """
    return _REPORT.fullmatch(key) is not None


def manifest_key(day: date, generation: int) -> str:
    """Give the key of a day's manifest.

    Args:
        day: the day.
        generation: counts from 1.

    Returns:
        The key; compactions that race for a generation race for it, and one of them gets it.
    """
    return f"runs/date={day}/_compact-{generation:06d}.json"


def compact_key(table: str, day: date, compaction: str) -> str:
    """Give the key of a compact file.

    Args:
        table: timings or runs.
        day: the day.
        compaction: its id, a UUIDv7.

    Returns:
        The key.
    """
    return f"{table}/date={day}/compact-{compaction}.parquet"


def begun(identity: str) -> datetime:
    """Read when a run or a compaction began from its id.

    Args:
        identity: a UUIDv7.

    Returns:
        The time, in UTC; the end of all times for a UUID of another version, which says nothing of it.
    """
    found = uuid.UUID(identity)
    if found.version != 7:
        return datetime.max.replace(tzinfo=UTC)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found.int >> 80)
