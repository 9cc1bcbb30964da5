"""A run's way to disk: rows in files by batch, each whole and durable, then the run's row, and the marker last."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows import schema
from flows.durable import file_sha256, publish
from flows.journal import Journal
from flows.layout import Entry, marker_key
from flows.parquet import packing
from flows.results import Run, rows, table, uuid7
from kernels.measurement import Measurement, Status
from kernels.progress import Row

BATCH_CASES = 256
"""Cases whose rows wait for a file at most: files are few, and memory is bounded."""

BATCH_S = 60.0
"""Seconds that a finished row waits for its file at most, as long as others follow it; its journal has it at once."""


class Store:
    """The files of one run, in the layout of results."""

    def __init__(self, folder: Path, run: Run, journal: Journal | None, note: Callable[[str], None]) -> None:
        """Prepare; a run that is gone on with takes over the files that it has.

        Args:
            folder: the results' root, or the spool of a remote one.
            run: the run.
            journal: is told of every file before it is written; None where a run cannot be gone on with.
            note: is told when a file cannot be written.
        """
        self.folder, self._run, self._journal, self._note = folder, run, journal, note
        self._day = f"date={run.started_at:%Y-%m-%d}"
        self._files: dict[str, Entry] = {}
        self._stored: set[str] = set()
        self._waiting: list[tuple[str, list[dict[str, Any]]]] = []
        self._partial: list[dict[str, Any]] = []
        self._key = ""
        self._since = time.monotonic()
        for key, cases in dict(journal.story.files).items() if journal else ():
            if (folder / key).is_file():
                self._files[key] = _entry(key, folder / key)
                self._stored.update(cases)

    def take(self, measurement: Measurement) -> Measurement:
        """Take the rows of a case; they are written with others, now or within a minute.

        Args:
            measurement: of a case that is done; one whose rows are in a file already is passed over.

        Returns:
            What is stored of it: a failure, where a row of it holds what no column can.
        """
        if measurement.case.id in self._stored:
            return measurement
        measurement, found = self._storable(measurement)
        self._waiting.append((measurement.case.id, found))
        if len(self._waiting) >= BATCH_CASES or time.monotonic() - self._since > BATCH_S:
            try:
                self._flush()
            except OSError as error:
                # At the end it is tried again, and elsewhere.
                self._note(f"{self.folder} cannot be written ({error.strerror}): the results wait")
                self._since = time.monotonic()
        return measurement

    def leave(self, measurement: Measurement) -> Measurement:
        """Take the rows of a case that was cut short; they are written when the run is suspended.

        Args:
            measurement: of the rounds that there are.

        Returns:
            What is stored of it, as ``take`` does.
        """
        measurement, found = self._storable(measurement)
        self._partial += found
        return measurement

    def move(self, folder: Path) -> None:
        """Go on in another folder, where this one cannot be written any more; what it holds is copied there.

        Args:
            folder: a root of results.

        Raises:
            OSError: that one cannot be written either.
        """
        for key in self._files:
            # What cannot even be read stays; the marker names it as well.
            with contextlib.suppress(OSError):
                content = (self.folder / key).read_bytes()
                publish(folder / key, content)
        self.folder, self._journal = folder, None

    def finish(self, rows: Iterable[Row]) -> list[Path]:
        """Write what is left: rows, the run's row, and the marker that says that all is there.

        Args:
            rows: of every cell of the plan, for their counts.

        Returns:
            The Parquet files, timings first.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        key = f"runs/{self._day}/{self._run.id}.parquet"
        row = self._run.row(rows)
        if (self.folder / key).is_file():
            # The run was killed after it wrote this; the root may have it by now, and a key has one content.
            self._files[key] = _entry(key, self.folder / key)
        else:
            self._put(key, table([row], schema.RUNS, self._run))
        whole = {
            "run_id": self._run.id,
            "schema_version": schema.VERSION,
            "planned": row["planned"],
            "files": [asdict(entry) for entry in self._files.values()],
        }
        marker = marker_key(self._run.started_at.date(), self._run.id)
        publish(self.folder / marker, (json.dumps(whole, indent=2) + "\n").encode())
        return [self.folder / key for key in self._files]

    def suspend(self, rows: Iterable[Row]) -> list[Path]:
        """Write the rows of a run that did not come to its end; without a marker, it can be gone on with.

        Args:
            rows: of every cell of the plan, as far as it was measured, for their counts.

        Returns:
            The Parquet files, timings first.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        files = {
            f"timings/{self._day}/{self._run.id}-partial.parquet": self._table(self._partial),
            f"runs/{self._day}/{self._run.id}-partial.parquet": table([self._run.row(rows)], schema.RUNS, self._run),
        }
        for key, content in files.items():
            if self._journal:
                self._journal.file(key, [])
            publish(self.folder / key, packed(content))
        return [self.folder / key for key in (*self._files, *files)]

    def _flush(self) -> None:
        if self._waiting:
            cases = [case_id for case_id, _ in self._waiting]
            # Kept until it is written: a file that is there although writing it failed is written over.
            key = self._key = self._key or f"timings/{self._day}/{self._run.id}-{uuid7()}.parquet"
            if self._journal:
                # Before the file: a run that is killed between the two finds it, or finds that it is not there.
                self._journal.file(key, cases)
            self._put(key, self._table(chain(*(found for _, found in self._waiting))))
            self._stored.update(cases)
            self._waiting.clear()
            self._key = ""
        self._since = time.monotonic()

    def _storable(self, measurement: Measurement) -> tuple[Measurement, list[dict[str, Any]]]:
        """Give a measurement and its rows, or a failure that says why it cannot be stored: it must cost no other."""
        found = rows(self._run, measurement)
        try:
            self._table(found)
        except ValueError as error:
            reason = f"its results cannot be stored: {error}"
            measurement = replace(measurement, status=Status.FAILED, reason=reason, timings={}, flags={}, facts={})
            found = rows(self._run, measurement)
        return measurement, found

    def _table(self, found: Iterable[dict[str, Any]]) -> pa.Table:
        # By phase: its samples are alike, and differences of like numbers are packed a tenth smaller.
        return table(sorted(found, key=lambda row: str(row["phase"])), schema.TIMINGS, self._run)

    def _put(self, key: str, content: pa.Table) -> None:
        data = packed(content)
        sha256 = publish(self.folder / key, data)
        self._files[key] = Entry(key, len(data), sha256, content.num_rows)


def _entry(key: str, path: Path) -> Entry:
    """Describe a file that a run wrote before it was killed, as its marker does."""
    return Entry(key, path.stat().st_size, file_sha256(path), pq.ParquetFile(path).metadata.num_rows)


def packed(content: pa.Table) -> bytes:
    """Pack rows as a raw file: zstd, samples as differences, text by dictionary, one row group.

    Args:
        content: the rows, with the footer in their metadata.

    Returns:
        The file's content.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(content, sink, row_group_size=1 << 20, **packing(content.schema))
    return bytes(sink.getvalue())
