"""Which stored files hold the rows now: what markers list, less what a compaction has replaced; nothing of Prefect.

A run's marker and a compaction's manifest are put last, each as one object. Before a manifest the raw files count, from
then on the compact ones, whatever of them is removed and when: a reader takes each row once at every moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

from flows.layout import Entry, Kind, Manifest, Place, place, read_marker
from flows.storage import Root, StorageError

THREADS = 16
"""Requests side by side: with small objects, all is waiting."""

TABLES = ("timings", "runs")
"""The tables of results."""

_LISTINGS = 5

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Held:
    """A file whose rows count.

    Attributes:
        key: relative to the root.
        place: what the key says.
        entry: what its marker or manifest says; None where none lists it.
        version: of the schema it was written with, as its run's marker says; None where that is not known.
    """

    key: str
    place: Place
    entry: Entry | None = None
    version: int | None = None


@dataclass(slots=True)
class Holdings:
    """What a root holds, as far as names, sizes and markers tell.

    Attributes:
        files: what counts, by key.
        unmarked: files of runs without a marker, by key: they count where their content is that of results.
        marked: ids of the runs that have a marker.
        aside: key to the reason why it does not count.
        missing: keys that markers list and that are not there.
    """

    files: dict[str, Held] = field(default_factory=dict)
    unmarked: dict[str, Held] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    aside: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def holdings(root: Root, damaged: Mapping[str, str] | None = None) -> Holdings:
    """Find out which files hold the rows now.

    Writers and compactions may go on meanwhile: where one has removed what a marker lists, all is listed again.

    Args:
        root: of the results.
        damaged: key to what is wrong with its content, where somebody has found that out.

    Returns:
        The files that count, and what was set aside.

    Raises:
        StorageError: it cannot be listed or read.
    """
    for attempt in range(_LISTINGS):
        # Markers first: whatever one lists was stored before it, and so is in the later listing.
        markers = {each.key: where for each in root.files("runs/") if (where := _marker(each.key))}
        stored = {each.key: each.nbytes for table in TABLES for each in root.files(f"{table}/")}
        found = _settle(root, markers, stored, damaged or {})
        if not found.missing or attempt == _LISTINGS - 1:
            found.aside |= dict.fromkeys(found.missing, "missing: a marker lists it")
            return found
    raise AssertionError("unreachable")


def _settle(
    root: Root, markers: Mapping[str, Place], stored: Mapping[str, int], damaged: Mapping[str, str]
) -> Holdings:
    """Apply the rule to one listing."""
    found = Holdings(aside=dict(damaged))
    replaced, covered, gone = _compacted(root, markers, stored, found)
    left = [key for key, where in markers.items() if where.kind is Kind.MARKER and (where.day, where.id) not in covered]
    for key, (entries, version) in _read(root, left, _run_marker, found).items():
        found.files |= _sound((entry for entry in entries if entry.key not in replaced), stored, found, version)
        found.marked.add(markers[key].id)
    # Of what a compaction has replaced nothing is missed: where it is not whole itself, a line says so.
    found.missing -= gone
    known = found.files.keys() | found.aside.keys() | replaced | markers.keys()
    for key in stored.keys() - known:
        where = place(key)
        # A marker that is listed only now belongs to a run that was not done when this began.
        if where is None or where.kind in {Kind.RAW, Kind.COMPACT}:
            _unlisted(found, key, where, stored[key])
    return found


def _compacted(
    root: Root, markers: Mapping[str, Place], stored: Mapping[str, int], found: Holdings
) -> tuple[set[str], set[tuple[date, str]], set[str]]:
    """Take each day's newest compaction; gives what is replaced, runs that are whole in it, what may be gone."""
    replaced, covered, settled = set[str](), set[tuple[date, str]](), set[tuple[date, str]]()
    keys = [key for key, where in markers.items() if where.kind is Kind.MANIFEST]
    manifests = _read(root, keys, Manifest.from_json, found)
    for key, manifest in sorted(manifests.items(), reverse=True):
        day = markers[key].day
        if all((day, table) in settled for table in TABLES):
            continue  # a later one has replaced it
        sound = _sound(manifest.files, stored, found)
        whole = {table for table in TABLES if all(e.key in sound for e in manifest.files if e.table == table)}
        if len(whole) < len(TABLES):
            found.aside[key] = "not all of its files are sound: what they replaced is read, as far as that is left"
            if stored.keys() >= set(manifest.replaces):
                continue
        for table in {table for table in whole if (day, table) not in settled}:
            settled.add((day, table))
            found.files |= {each: held for each, held in sound.items() if held.place.table == table}
            replaced.update(each for each in manifest.replaces if each.startswith(f"{table}/"))
            covered.update((day, run) for run in manifest.runs if len(whole) == len(TABLES))
    found.marked.update(run for _, run in covered)
    gone = {each for manifest in manifests.values() for each in manifest.replaces}
    return replaced - found.files.keys(), covered, gone


def _sound(
    entries: Iterable[Entry], stored: Mapping[str, int], found: Holdings, version: int | None = None
) -> dict[str, Held]:
    """Give the files that are as a marker says; say of the others why not."""
    sound = {}
    for entry in entries:
        where = place(entry.key)
        if where is None or where.kind not in {Kind.RAW, Kind.COMPACT}:
            found.aside[entry.key] = "foreign: no name of a file of results, though a marker lists it"
        elif entry.key in found.aside:
            continue  # somebody has found it damaged
        elif entry.key not in stored:
            found.missing.add(entry.key)
        elif stored[entry.key] != entry.nbytes:
            found.aside[entry.key] = f"damaged: it has {stored[entry.key]} bytes, its marker says {entry.nbytes}"
        else:
            sound[entry.key] = Held(entry.key, where, entry, version)
    return sound


def _read(root: Root, keys: list[str], parse: Callable[[bytes], _T], found: Holdings) -> dict[str, _T]:
    """Read markers side by side; what is none is set aside, and what is gone is passed over."""

    def one(key: str) -> _T | str | None:
        try:
            content = root.read(key)
        except StorageError as error:
            if error.code != "NoSuchKey":
                raise
            return None
        try:
            return parse(content)
        except (ValueError, TypeError):
            return f"damaged: {len(content)} bytes that are no marker"

    read: dict[str, _T] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for key, marker in zip(keys, pool.map(one, keys), strict=True):
            if isinstance(marker, str):
                found.aside[key] = marker
            elif marker is not None:
                read[key] = marker
    return read


def _run_marker(content: bytes) -> tuple[tuple[Entry, ...], int | None]:
    entries, version = read_marker(content), json.loads(content).get("schema_version")
    return entries, version if isinstance(version, int) else None


def _unlisted(found: Holdings, key: str, where: Place | None, nbytes: int) -> None:
    """Judge a file that no marker lists."""
    if where is None:
        found.aside[key] = "foreign: no name of a file of results"
    elif where.kind is Kind.COMPACT:
        found.aside[key] = "of a compaction that is going on, or did not come to its end"
    elif where.id in found.marked:
        found.aside[key] = "the marker of its run does not list it"
    elif not nbytes:
        found.aside[key] = "damaged: it is empty"
    else:
        found.unmarked[key] = Held(key, where)


def _marker(key: str) -> Place | None:
    where = place(key)
    return where if where is not None and where.kind in {Kind.MARKER, Kind.MANIFEST} else None
