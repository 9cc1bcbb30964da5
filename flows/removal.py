"""What a compaction lets go: files that it has replaced, when their time is over, and what killed ones have left."""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path

from flows.copies import Copies, UnsoundError
from flows.layout import Kind, Manifest, Place, begun, manifest_key, place
from flows.replacement import Compacted
from flows.storage import LocalRoot, Root, StorageError

ABANDONED = timedelta(days=1)
"""A compact file of this age that no manifest names is left of a killed compaction; one at work is given up before."""

_TEMPORARY = re.compile(r"\.(?:compact-[0-9a-f-]{36}\.parquet|_compact-\d{6}\.json)\.[0-9a-f]{12}")


def clear_day(root: Root, day: date, keep_raw: timedelta, now: datetime, result: Compacted) -> None:
    """Remove a day's replaced files, after a look at the files that replace them.

    Markers stay, so that it can be verified for ever what a day should hold.

    Args:
        root: the root.
        day: the UTC day.
        keep_raw: how long replaced files stay after the compaction.
        now: the time.
        result: is told what was removed, and why not.

    Raises:
        StorageError: the root cannot be read, or files may not be removed.
    """
    there = {
        stored.key: where
        for table in ("runs", "timings")
        for stored in root.files(f"{table}/date={day}/")
        if (where := place(stored.key)) is not None
    }
    numbers = sorted(int(where.id) for where in there.values() if where.kind is Kind.MANIFEST)
    manifests = {number: _manifest(root, day, number) for number in numbers}
    newest = manifests[numbers[-1]] if numbers else None
    if numbers and newest is None:
        result.problems.append(f"{manifest_key(day, numbers[-1])} cannot be read; nothing of {day} is removed")
        return
    if newest is not None and now - newest.compacted_at >= keep_raw:
        gone = [key for key in newest.replaces if key in there]
        gone += [manifest_key(day, number) for number in numbers[:-1]]
        if gone and _sound(root, newest, result):
            _remove(root, gone, result)
    named = {entry.key for manifest in manifests.values() if manifest for entry in manifest.files}
    named |= {key for manifest in manifests.values() if manifest for key in manifest.replaces}
    if None not in manifests.values():
        _remove(root, [key for key, where in there.items() if key not in named and _abandoned(where, now)], result)
    if isinstance(root, LocalRoot):
        _sweep(root, day)


def _manifest(root: Root, day: date, number: int) -> Manifest | None:
    try:
        return Manifest.from_json(root.read(manifest_key(day, number)))
    except ValueError:
        return None
    except StorageError as error:
        if error.status != 404:
            raise
        return None


def _sound(root: Root, manifest: Manifest, result: Compacted) -> bool:
    """Read the compact files once more: from here on they are all there is."""
    with tempfile.TemporaryDirectory(prefix="jitmatrix-compact-") as name:
        copies = Copies(root, Path(name))
        try:
            for entry in manifest.files:
                copies.take(entry)
                copies.drop(entry)
        except UnsoundError as error:
            result.problems.append(f"what the compaction has replaced stays: {error}")
            return False
    return True


def _remove(root: Root, keys: list[str], result: Compacted) -> None:
    for key in keys:
        root.delete(key)
        result.removed += 1


def _abandoned(where: Place, now: datetime) -> bool:
    return where.kind is Kind.COMPACT and now - begun(where.id) > ABANDONED


def _sweep(root: LocalRoot, day: date) -> None:
    """Take away what killed compactions were writing; it has no name for readers."""
    for path in root.path.glob(f"*/date={day}/.*"):
        with suppress(FileNotFoundError):
            if _TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > ABANDONED.total_seconds():
                path.unlink()
