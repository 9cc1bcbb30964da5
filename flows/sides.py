"""One side of a comparison: the timings of its runs by case and phase, and what of them is not to be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from flows.query import looked
from flows.references import StoredRun, find, json_of, parts, stored_runs
from flows.storage import Root
from flows.timings_file import is_file, read_file
from kernels.progress import number
from kernels.statistics import Rounds, per_call

COLUMNS = (
    "run_id, case_id, kernel, framework, mode, size, dims, dtype, derivative, backend, source, source_sha256, cold, "
    "phase, status, reason, flags, samples, inner_calls, program_hash, facts, machine, image"
)
"""Of timings, what a comparison needs."""

_LEFT_OUT = frozenset({"skipped", "unavailable"})


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What two cases must share to be compared, the machine apart.

    Attributes:
        case_id: the case's id.
        dims: dimensions of its size, as JSON: a label may come to mean something else.
        cold: whether inputs were beyond the caches.
        workers: cases that ran side by side, of a thread each; 0 where one at a time had every processor.
        own: whether the kernel is the user's own, which may have the name of one of the suite.
    """

    case_id: str
    dims: str
    cold: bool
    workers: int
    own: bool

    def __str__(self) -> str:
        words = ", ".join(filter(None, ["cold" if self.cold else "", workers(self.workers)]))
        return f"{self.case_id} ({words})" if words else self.case_id


def workers(count: int | None) -> str:
    """Write how many cases ran side by side.

    Args:
        count: of workers; none where one case at a time had every processor.

    Returns:
        Such as ``1 worker``; empty where there are none.
    """
    return number(count, "worker") if count else ""


@dataclass(slots=True)
class Timed:
    """A case and phase on one side.

    Attributes:
        rows: of the runs that timed it and may be trusted.
        flags: of the runs that timed it and may not, why not: flags, or what is wrong with their samples.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Rounds]:
        """Nanoseconds per call, by run and round."""
        return [per_call(row["samples"], row["inner_calls"]) for row in self.rows]


@dataclass(slots=True)
class Side:
    """One side.

    Attributes:
        runs: that it consists of; of a file, with what its rows tell.
        timed: by case and phase.
        rows: a row of every case that was tried, whatever became of it; an ok one where there is one.
    """

    runs: list[StoredRun]
    timed: dict[tuple[Key, str], Timed] = field(default_factory=dict)
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)

    @property
    def ok(self) -> set[Key]:
        """The cases that are ok in one of its runs."""
        return {key for key, row in self.rows.items() if row["status"] == "ok"}

    @property
    def comparable(self) -> set[Key]:
        """The cases of which a timing may be compared."""
        return {key for (key, _), timed in self.timed.items() if timed.rows}

    def machines(self, backend: str) -> set[str]:
        """Give the fingerprints of the machines that its cases of a backend ran on."""
        return {row["machine"] or "unknown" for row in self.rows.values() if row["backend"] == backend}

    def __str__(self) -> str:
        return ", ".join(str(run) for run in self.runs)


def load(root: Root, reference: str | Sequence[str], backend: str | None = None) -> Side:
    """Read one side.

    Args:
        root: of the results.
        reference: as ``references.resolve`` takes it, or ids of runs.
        backend: read the cases of this one alone.

    Returns:
        The side.

    Raises:
        UsageError: there is no such run, or it is incomplete.
        StorageError: the root cannot be read.
    """
    texts = parts(reference) if isinstance(reference, str) else reference
    files = [text for text in texts if is_file(text)]
    named = [text for text in texts if not is_file(text)]
    known = stored_runs(root) if named or not files else []
    runs = {run.id: run for run in (find(known, text, root.address, backend) for text in named)}
    rows = _rows(root, list(runs.values())) if runs else []
    for file in files:
        found = read_file(root, file).to_pylist()
        rows += [row for row in found if row["run_id"] not in runs]
        runs |= {run.id: run for run in _of_file(found) if run.id not in runs}
    side = Side(list(runs.values()))
    for row in rows:
        if (backend is None or row["backend"] == backend) and row["status"] not in _LEFT_OUT:
            _take(side, row, json_of(runs[row["run_id"]].row.get("plan")).get("workers") or 0)
    return side


def _rows(root: Root, runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Read the rows of runs; days are named, so that no file of another day is opened."""
    ids = ", ".join(f"'{run.id}'" for run in runs)
    days = ", ".join(sorted({f"date '{run.row['date']}'" for run in runs}))
    sql = f"select {COLUMNS} from timings where date in ({days}) and run_id in ({ids})"

    def work(connection: duckdb.DuckDBPyConnection) -> pa.Table:
        return connection.sql(sql).to_arrow_table()

    found, _ = looked(root, work)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _of_file(rows: Sequence[dict[str, Any]]) -> list[StoredRun]:
    """Make runs of what a file's rows tell of them: no versions, no commit, and whether they are whole is not known."""
    first = {row["run_id"]: row for row in reversed(rows)}
    return [
        StoredRun(run_id, row["measured_at"], True, {"machine": row["machine"], "image": row["image"]})
        for run_id, row in first.items()
    ]


def key_of(row: Mapping[str, Any], workers: int) -> Key:
    """Give the case of a row.

    Args:
        row: of timings.
        workers: of its run; 0 where cases ran one at a time.

    Returns:
        The key.
    """
    return Key(row["case_id"], row["dims"] or "{}", bool(row["cold"]), workers, row["source"] is not None)


def unfit(row: Mapping[str, Any]) -> str | None:
    """Say why the samples of a row can be in no ratio.

    Args:
        row: of timings, which was timed.

    Returns:
        The reason; None where they can. What jitmatrix writes has none but that of a clock that stood still; a
        file from elsewhere may have any.
    """
    samples, calls = row["samples"], row["inner_calls"] or ()
    if not all(samples) or any(None in round_ for round_ in samples):
        return "a round without samples"
    if len(calls) != len(samples) or None in calls or min(calls) < 1:
        return "samples of an unknown number of calls"
    return "a sample of 0 ns" if min(map(min, samples)) <= 0 else None


def _take(side: Side, row: dict[str, Any], workers: int) -> None:
    key = key_of(row, workers)
    if key not in side.rows or (side.rows[key]["status"] != "ok" and row["status"] == "ok"):
        side.rows[key] = row
    if row["status"] != "ok" or not row["samples"]:
        return
    timed = side.timed.setdefault((key, row["phase"]), Timed())
    wrong = unfit(row)
    if flags := row["flags"] or ([wrong] if wrong else []):
        timed.flags += [flag for flag in flags if flag not in timed.flags]
    else:
        timed.rows.append(row)
