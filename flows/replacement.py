"""Few large files in place of many small ones: a closed day's runs, with nothing lost, doubled or unseen meanwhile.

Peak memory is below ``MEMORY_NBYTES``, however much a day holds. The manifest that names the new files is the one
commit point: until it is stored the raw files count, from then on the compact ones. Compactions of one day race for
the key of one manifest, and one of them gets it.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from flows import parquet, schema
from flows.copies import TABLES, Copies, GoneError, UnsoundError
from flows.durable import file_sha256
from flows.external_sort import in_order
from flows.holdings import THREADS, Held, Holdings
from flows.layout import Entry, Kind, Manifest, compact_key, manifest_key, marker_key, read_marker
from flows.results import uuid7
from flows.storage import ConflictError, Root, StorageError

MEMORY_NBYTES = 512 << 20
"""Resident bytes of a process that compacts, at most."""

LONGEST = timedelta(hours=12)
"""A compaction that took longer is given up: others take its files for those of a killed one after a day."""

ORDER = {
    "timings": ("kernel", "framework", "mode", "size", "dtype", "phase", "run_id"),
    "runs": ("run_id",),
}
"""By what the compact files of each table are sorted, so that a reader who filters by it opens few row groups."""


@dataclass(slots=True)
class Compacted:
    """What became of a day.

    Attributes:
        day: the UTC day.
        runs: number of runs that were taken in.
        files: number of files that the compact ones replace.
        rows: number of rows in the compact files.
        nbytes: size of the files that are replaced.
        compact_nbytes: size of the compact files; 0 where nothing was compacted.
        removed: number of files that were removed, replaced ones and what killed compactions had left.
        notes: what is to be known, such as that another compaction was first.
        problems: runs or files that are not as they should be; they stay as they are.
    """

    day: date
    runs: int = 0
    files: int = 0
    rows: int = 0
    nbytes: int = 0
    compact_nbytes: int = 0
    removed: int = 0
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = []
        if self.compact_nbytes:
            before, after = self.nbytes / 1e6, self.compact_nbytes / 1e6
            said.append(
                f"{self.runs} runs, {self.rows} rows: {self.files} files ({before:.1f} MB) into 2 ({after:.1f} MB)"
            )
        said += [f"{self.removed} files removed"] if self.removed else []
        return f"{self.day}: {'; '.join([*said, *self.notes, *self.problems]) or 'nothing to do'}"


def replace_day(root: Root, day: date, generation: int, found: Holdings, result: Compacted) -> None:
    """Compact a day's files, when that makes them fewer.

    Args:
        root: the root.
        day: a closed UTC day.
        generation: of its newest manifest, as it was before ``found``; 0 where there is none.
        found: what the root holds.
        result: is filled.

    Raises:
        StorageError: the root cannot be read or written.
        OSError: there is no room for the day's files in the temporary folder.
    """
    began = datetime.now(UTC)
    held = {file.key: file for file in found.files.values() if file.place.day == day and file.entry is not None}
    earlier = [file.entry for file in held.values() if file.place.kind is Kind.COMPACT and file.entry is not None]
    if len(held) <= len(ORDER) or len(earlier) == len(held):
        return
    with tempfile.TemporaryDirectory(prefix="jitmatrix-compact-") as name:
        copies = Copies(root, Path(name))
        try:
            before = _counting(root, day, generation, earlier)
            runs = _sound(copies, _whole(root, day, held, result), result)
            if not runs:
                return
            for entry in earlier:
                copies.take(entry)
            taken = [*earlier, *(entry for entries in runs.values() for entry in entries)]
            made = [_made(root, day, table, taken, copies) for table in ORDER]
        except GoneError as error:
            result.notes.append(f"another compaction was first: {error}")
            return
        except UnsoundError as error:
            result.problems.append(str(error))
            return
    manifest = Manifest(
        generation + 1,
        datetime.now(UTC),
        tuple(made),
        tuple(sorted({entry.key for entry in taken} | set(before.replaces if before else ()))),
        tuple(sorted({*runs, *(before.runs if before else ())})),
    )
    if not _committed(root, day, manifest, began):
        result.notes.append("another compaction was first")
        return
    result.runs, result.files, result.rows = len(runs), len(taken), sum(entry.rows for entry in made)
    result.nbytes = sum(entry.nbytes for entry in taken)
    result.compact_nbytes = sum(entry.nbytes for entry in made)


def _committed(root: Root, day: date, manifest: Manifest, began: datetime) -> bool:
    late = manifest.compacted_at - began > LONGEST
    try:
        if not late:
            root.put(manifest_key(day, manifest.generation), manifest.to_json())
            return True
    except ConflictError:
        pass
    # Nobody has read them: no manifest names them. After any other error one might, and a later compaction looks.
    for entry in manifest.files:
        root.delete(entry.key)
    return False


def _counting(root: Root, day: date, generation: int, earlier: list[Entry]) -> Manifest | None:
    """Find the manifest by which the day's compact files count."""
    keys = {entry.key for entry in earlier}
    for number in range(generation, 0, -1) if keys else ():
        try:
            manifest = Manifest.from_json(root.read(manifest_key(day, number)))
        except ValueError:
            continue
        except StorageError as error:
            if error.status != 404:
                raise
            continue
        lost = sorted({entry.key for entry in manifest.files} - keys)
        if not lost:
            return manifest
        if len(lost) < len(manifest.files):
            raise UnsoundError(lost[0], f"it is missing or damaged; {day} is left as it is")
    if keys:
        raise GoneError(min(keys), f"no manifest of {day} up to {generation} names it")
    return None


def _whole(root: Root, day: date, held: dict[str, Held], result: Compacted) -> dict[str, list[Entry]]:
    """Find the runs all of whose files are here, as their markers say; name the others."""
    runs = sorted({file.place.id for file in held.values() if file.place.kind is Kind.RAW})
    with ThreadPoolExecutor(THREADS) as pool:
        markers = dict(zip(runs, pool.map(lambda run: root.read(marker_key(day, run)), runs), strict=True))
    whole = {}
    for run, content in markers.items():
        named = list(read_marker(content))
        lost = [entry.key for entry in named if entry.key not in held]
        if lost:
            result.problems.append(f"run {run} is left as it is: {lost[0]} is missing or damaged")
        else:
            whole[run] = named
    return whole


def _sound(copies: Copies, whole: dict[str, list[Entry]], result: Compacted) -> dict[str, list[Entry]]:
    """Copy the files of runs; leave out runs of which one is not what its marker says, and name them."""

    def one(entries: list[Entry]) -> str | None:
        try:
            for entry in entries:
                copies.take(entry)
        except GoneError:
            raise
        except UnsoundError as error:
            for entry in entries:
                copies.drop(entry)
            return str(error)
        return None

    with ThreadPoolExecutor(THREADS) as pool:
        reasons = dict(zip(whole, pool.map(one, whole.values()), strict=True))
    result.problems += [f"run {run} is left as it is: {reason}" for run, reason in reasons.items() if reason]
    return {run: entries for run, entries in whole.items() if not reasons[run]}


def _made(root: Root, day: date, table: str, taken: list[Entry], copies: Copies) -> Entry:
    """Write and store the compact file of a table; what is stored is read again and compared."""
    columns, compaction = TABLES[table], str(uuid7())
    inputs = [entry for entry in taken if entry.table == table]
    path, parts = copies.folder / "compact", copies.folder / "parts"
    parts.mkdir(exist_ok=True)
    given, stored = parquet.Checksum(columns), parquet.Checksum(columns)
    rows = given.of(parquet.gathered(each for entry in inputs for each in copies.rows(entry)))
    footer = {"schema_version": str(schema.VERSION), "compaction": compaction}
    count = parquet.write(path, in_order(rows, ORDER[table], parts), columns.with_metadata(footer))
    entry = Entry(compact_key(table, day, compaction), path.stat().st_size, file_sha256(path), count)
    root.put(entry.key, path)
    path.unlink()
    copies.take(entry)
    for each in parquet.gathered(copies.rows(entry)):
        stored.add(each)
    wanted = sum(each.rows for each in inputs)
    if given != stored or count != wanted:
        root.delete(entry.key)
        raise UnsoundError(entry.key, f"{stored.rows} rows came back of {wanted}, or other ones; nothing is replaced")
    return entry
