"""The journal of a run: every turn as soon as it is over, on disk, so that a killed run can be gone on with.

A file of JSON lines: first the head, then what happened in order of time. It lives beside the results, is no part of
them, and is removed once all that it holds is stored.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from flows.durable import fsync_folder
from flows.file_lock import locked
from kernels.case import Backend, Case
from kernels.errors import UsageError
from kernels.floors import Roofline
from kernels.measurement import Outcome, Reading, Status
from kernels.schedule import Turn

FOLDER = ".journal"
"""In the results' root or the spool; readers of folders pass over names that begin with a dot."""


@dataclass(slots=True)
class Story:
    """What a journal tells.

    Attributes:
        head: what the run was begun with.
        turns: the turns that were taken, and whether the last process of each ended otherwise than ok.
        startups: backend and framework to the startup reading.
        rooflines: backend to its measured roofline.
        files: keys of the files of results in order, each with the ids of the cases whose rows it holds.
    """

    head: dict[str, Any] = field(default_factory=dict)
    turns: dict[Turn, bool] = field(default_factory=dict)
    startups: dict[Backend, dict[str, Reading]] = field(default_factory=dict)
    rooflines: dict[Backend, Roofline] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)


class Journal:
    """Appends to one run's journal, from any thread; no other process can while it is open."""

    def __init__(self, path: Path, head: Mapping[str, Any] | None = None) -> None:
        """Open the journal of a run.

        Args:
            path: the file.
            head: what the run is begun with, for a new journal; None goes on with the one that is there.

        Raises:
            UsageError: there is none to go on with, it is damaged, or the run is still going.
            OSError: it cannot be written.
        """
        self.path, self.story = path, Story()
        self._places: dict[Case, dict[int, tuple[int, int]]] = {}
        self._lock = threading.Lock()
        if head is None and not path.is_file():
            raise UsageError(_unknown_run(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if head is not None else 0)
        self._file = os.open(path, flags, 0o644)
        try:
            if not locked(self._file):
                raise UsageError(f"run {path.stem} is still going in another process; wait for it, or end it")
            if head is not None:
                self._append({"kind": "head", **head})
                fsync_folder(path.parent)
                self.story.head = dict(head)
            else:
                self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Journal:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, and let others open it."""
        os.close(self._file)

    def turn(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        """Keep what the processes of a turn left behind.

        Args:
            turn: the turn, which is over.
            outcomes: in order of time.
        """
        record = {"case": turn.case.to_json(), "round": turn.round, "outcomes": [o.to_json() for o in outcomes]}
        self._places.setdefault(turn.case, {})[turn.round] = self._append({"kind": "turn", **record})

    def take(self, case: Case) -> dict[int, list[Outcome]]:
        """Read back what the turns of a case left behind; they are not told a second time.

        Args:
            case: the case.

        Returns:
            Round to outcomes in order of time; none where the journal holds none.

        Raises:
            OSError: it cannot be read.
        """
        found = {}
        for number, (start, nbytes) in sorted(self._places.pop(case, {}).items()):
            record = json.loads(os.pread(self._file, nbytes, start))
            found[number] = [Outcome.from_json(outcome) for outcome in record["outcomes"]]
        return found

    def machine(self, backend: Backend, roofline: Roofline, startups: Mapping[str, Reading]) -> None:
        """Keep what was measured of the machine and of the frameworks.

        Args:
            backend: whose.
            roofline: as measured; empty where there is none.
            startups: framework to its startup reading.
        """
        readings = {framework: asdict(reading) for framework, reading in startups.items()}
        self._append({"kind": "machine", "backend": backend.value, "roofline": dict(roofline), "startups": readings})

    def file(self, key: str, cases: Sequence[str]) -> None:
        """Keep which cases a file of results is to hold, before it is written.

        Args:
            key: the file's key under the root.
            cases: ids of the cases.
        """
        self._append({"kind": "file", "key": key, "cases": list(cases)})
        self.story.files[key] = list(cases)

    def retracted(self, keys: Sequence[str]) -> None:
        """Keep that files of results are gone: what they held is to be stored anew.

        Args:
            keys: the files' keys.
        """
        self._append({"kind": "retracted", "keys": list(keys)})
        for key in keys:
            self.story.files.pop(key, None)

    def remove(self) -> None:
        """Remove the file: all that it tells is stored."""
        self.path.unlink(missing_ok=True)

    def _append(self, record: Mapping[str, Any]) -> tuple[int, int]:
        """Write a line; gives where it begins, and its bytes."""
        # What is not finite stays so: it is this program that reads it, and a row with it is refused by name.
        data = json.dumps(record).encode() + b"\n"
        nbytes = len(data)
        with self._lock:
            end = os.lseek(self._file, 0, os.SEEK_END)
            try:
                while data:
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
            except OSError:
                # Half a line would hide all that is written after it.
                os.ftruncate(self._file, end)
                raise
        return end, nbytes

    def _read(self) -> None:
        whole = 0
        for number, line in enumerate(_lines(self._file), 1):
            if not line.endswith(b"\n"):
                # The run was killed while it wrote this: it never was.
                os.ftruncate(self._file, whole)
                break
            place = whole, len(line)
            whole += len(line)
            try:
                self._tell(json.loads(line), place)
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"{self.path}, line {number}: no line of a journal ({error}); the run cannot be resumed"
                ) from error
        if not self.story.head:
            raise UsageError(f"{self.path}: empty; nothing was measured, start the run anew")

    def _tell(self, record: dict[str, Any], place: tuple[int, int]) -> None:
        kind = record.pop("kind")
        story = self.story
        if kind == "head":
            story.head = record
        elif kind == "turn":
            turn = Turn(Case.from_json(record["case"]), record["round"])
            # Read as it will be read back, so that a damaged line is found now.
            outcomes = [Outcome.from_json(outcome) for outcome in record["outcomes"]]
            story.turns[turn] = any(outcome.status is not Status.OK for outcome in outcomes)
            self._places.setdefault(turn.case, {})[turn.round] = place
        elif kind == "machine":
            backend = Backend(record["backend"])
            story.rooflines[backend] = record["roofline"]
            story.startups[backend] = {
                framework: Reading.from_json(reading) for framework, reading in record["startups"].items()
            }
        elif kind == "file":
            story.files[record["key"]] = record["cases"]
        elif kind == "retracted":
            for key in record["keys"]:
                story.files.pop(key, None)
        else:
            raise ValueError(f"unknown kind {kind!r}")


def place(folder: Path, run_id: str) -> Path:
    """Say where a run's journal is.

    Args:
        folder: the results' root, or the spool of a remote one.
        run_id: the run's id.

    Returns:
        The file's path.
    """
    return folder / FOLDER / f"{run_id}.jsonl"


def unfinished(folder: Path) -> list[str]:
    """List the runs that can be gone on with.

    Args:
        folder: the results' root, or the spool of a remote one.

    Returns:
        Their ids, oldest first.
    """
    return sorted(path.stem for path in (folder / FOLDER).glob("*.jsonl"))


def _unknown_run(path: Path) -> str:
    others = ", ".join(unfinished(path.parents[1])) or "none"
    return f"--resume {path.stem}: no unfinished run of this id under {path.parents[1]}; unfinished there: {others}"


def _lines(file: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        yield from stream
