"""Is a root what its markers say? Every file held against its marker, every row counted once; nothing is changed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flows.copies import TABLES, Copies, GoneError, UnsoundError
from flows.holdings import THREADS, Held, Holdings, holdings
from flows.layout import PLANS, Entry, Kind, Manifest, manifest_key, marker_key, place, read_marker
from flows.plan import unsound
from flows.problems import Problem, aside, at_work, incomplete
from flows.storage import Root, StorageError
from kernels.progress import number

_IDENTITY = {"timings": ("run_id", "case_id", "phase"), "runs": ("run_id",)}


@dataclass(slots=True)
class Verified:
    """What a root holds, and what is wrong with it.

    Attributes:
        runs: number of whole runs.
        open: number of runs that seem to be going on.
        files: number of files whose rows count.
        rows: number of timings in them.
        problems: in the order of their kinds and keys.
    """

    runs: int = 0
    open: int = 0
    files: int = 0
    rows: int = 0
    problems: list[Problem] = field(default_factory=list)

    def __str__(self) -> str:
        going = f", {self.open} open" if self.open else ""
        verdict = number(len(self.problems), "problem") if self.problems else "no problem"
        return f"{self.runs} whole runs{going}, {self.files} files, {self.rows} timings: {verdict}"


def verify(root: Root, now: datetime | None = None) -> Verified:
    """Hold every file against its marker, and count every row once.

    Args:
        root: the root; nothing in it is changed.
        now: the time; None takes the clock's.

    Returns:
        What it holds, and every problem.

    Raises:
        StorageError: it cannot be listed or read.
        OSError: there is no room for copies of its largest files in the temporary folder.
    """
    found = holdings(root)
    result = Verified(len(found.marked), files=len(found.files))
    now = now or datetime.now(UTC)
    result.problems += [aside(key, reason) for key, reason in found.aside.items() if not at_work(key, now)]
    ended = list(incomplete(found, now))
    result.problems += ended
    result.open = len({held.place.id for held in found.unmarked.values()}) - len(ended)
    days: dict[date, list[str]] = {}
    for table in TABLES:
        for stored in root.files(f"{table}/"):
            where = place(stored.key)
            if where is not None:
                days.setdefault(where.day, []).append(stored.key)
    with ThreadPoolExecutor(THREADS) as pool:
        for day, keys in sorted(days.items()):
            result.problems += _Day(root, found, day, keys, pool).problems()
    result.problems += filter(None, map(partial(_plan, root), [stored.key for stored in root.files(PLANS)]))
    result.rows = sum(held.entry.rows for held in found.files.values() if held.entry and held.entry.table == "timings")
    result.problems.sort()
    return result


def _plan(root: Root, key: str) -> Problem | None:
    """Look whether a sweep's plan is what its name says."""
    try:
        reason = unsound(key, root.read(key))
    except StorageError as error:
        if error.status != 404:
            raise
        return None
    return None if reason is None else Problem("damaged", key, reason, "delete it; the same sweep stores it again")


class _Day:
    """The files of one day."""

    def __init__(self, root: Root, found: Holdings, day: date, keys: list[str], pool: ThreadPoolExecutor) -> None:
        self._root, self._found, self._day, self._keys, self._pool = root, found, day, set(keys), pool
        self._numbers = {key: number for number, key in enumerate(sorted(keys))}
        self._rows: dict[str, list[pa.Table]] = {table: [] for table in TABLES}

    def problems(self) -> Iterator[Problem]:
        markers: dict[str, tuple[Entry, ...]] = {}
        for run, content in self._markers().items():
            try:
                markers[run] = read_marker(content)
            except ValueError:
                continue  # it is among what was set aside
        yield from self._compacted(markers)
        held = [file for file in (*self._found.files.values(), *self._found.unmarked.values()) if self._mine(file)]
        yield from self._each(self._look, held)
        yield from self._each(self._kept, [entry for entries in markers.values() for entry in entries])
        for table in TABLES:
            yield from self._doubled(table)

    def _each(self, check: Callable[[Any], Problem | None], items: list[Any]) -> Iterator[Problem]:
        yield from filter(None, self._pool.map(check, items))

    def _mine(self, file: Held) -> bool:
        return file.place.day == self._day

    def _markers(self) -> dict[str, bytes]:
        runs = [where.id for key in self._keys if (where := place(key)) and where.kind is Kind.MARKER]
        return dict(
            zip(runs, self._pool.map(lambda run: self._root.read(marker_key(self._day, run)), runs), strict=True)
        )

    def _compacted(self, markers: dict[str, tuple[Entry, ...]]) -> Iterator[Problem]:
        """Compare what the newest manifest says with the markers of the runs that it holds."""
        numbers = [int(where.id) for key in self._keys if (where := place(key)) and where.kind is Kind.MANIFEST]
        key = manifest_key(self._day, max(numbers, default=0))
        if key not in self._keys or key in self._found.aside:
            return
        manifest = Manifest.from_json(self._root.read(key))
        for run in sorted(set(manifest.runs) - markers.keys()):
            lost = marker_key(self._day, run)
            yield Problem("marker", lost, "it is missing or damaged; the compact files have the rows", "store a copy")
        if set(manifest.runs) <= markers.keys():
            for entry in manifest.files:
                rows = sum(raw.rows for run in manifest.runs for raw in markers[run] if raw.table == entry.table)
                if rows != entry.rows:
                    found = f"it has {entry.rows} rows, and its runs' markers say {rows}"
                    yield Problem("damaged", entry.key, found, "while the raw files are here, delete its manifest")

    def _look(self, file: Held) -> Problem | None:
        """Read a file whose rows count."""
        identity = list(_IDENTITY[file.place.table])
        with tempfile.TemporaryDirectory(prefix="jitmatrix-verify-") as name:
            copies = Copies(self._root, Path(name))
            try:
                if file.entry is not None:
                    copies.take(file.entry)
                    rows = copies.columns(file.entry, identity)
                else:
                    rows = pq.read_table(copies.look(file.key), columns=identity)
            except GoneError:
                return None  # a compaction or a resumed run has removed it since it was listed
            except UnsoundError as error:
                return aside(file.key, f"damaged: {error.reason}")
        runs = set(rows["run_id"].unique().to_pylist())
        if file.place.kind is Kind.RAW and runs - {file.place.id}:
            return Problem("foreign", file.key, "it holds rows of another run", "move it out of the root")
        number = pa.array([self._numbers[file.key]] * len(rows), pa.int32())
        self._rows[file.place.table].append(rows.append_column("file", number))
        return None

    def _kept(self, entry: Entry) -> Problem | None:
        """Look at a raw file that a compaction has replaced and that is still here."""
        if entry.key not in self._keys or entry.key in self._found.files or entry.key in self._found.aside:
            return None
        with tempfile.TemporaryDirectory(prefix="jitmatrix-verify-") as name:
            try:
                Copies(self._root, Path(name)).take(entry)
            except UnsoundError as error:
                return Problem("damaged", entry.key, f"{error.reason}; a compact file has its rows", "delete it")
        return None

    def _doubled(self, table: str) -> Iterator[Problem]:
        if not self._rows[table]:
            return
        identity = list(_IDENTITY[table])
        keys = list(self._numbers)
        found = pa.concat_tables(self._rows[table]).group_by(identity)
        found = found.aggregate([("file", "count"), ("file", "min"), ("file", "max")])
        twice = found.filter(pc.greater(found["file_count"], 1))
        for pair in twice.group_by(["file_min", "file_max"]).aggregate([([], "count_all")]).to_pylist():
            one, other = keys[pair["file_min"]], keys[pair["file_max"]]
            where = "twice in it" if one == other else f"in {one} too"
            mend = "delete one of the two files, and the marker or manifest that names it"
            yield Problem("duplicate", other, f"{pair['count_all']} of its rows are {where}", mend)
