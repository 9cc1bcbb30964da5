"""Which runs a report is about, and the views of stored results narrowed to them; nothing of Prefect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import duckdb
import pyarrow as pa

from flows.references import StoredRun, find, resolve, stored_runs
from flows.storage import Root
from flows.timings_file import is_file
from kernels.errors import UsageError

_CHOICES = 5
_DAYS = re.compile(r"([1-9]\d{0,3})d")

_TABLES = ("timings_files", "runs_files", "rowless_runs")


class NoRunError(UsageError):
    """Nothing is wrong with what was asked for, and there is no run of it."""


def choose(root: Root, runs: Sequence[str], since: str | None) -> list[str] | None:
    """Find the runs that a report is to be about.

    Args:
        root: of the results.
        runs: references, as ``flows.references.resolve`` takes them.
        since: a day in UTC, as YYYY-MM-DD, or a number of days before now, as 7d: all complete runs begun then or
            later.

    Returns:
        Ids; None where nothing is chosen: the newest complete run of each case then.

    Raises:
        NoRunError: no complete run began since, or the root holds none.
        UsageError: there is no such run, it is incomplete, or ``since`` is no time.
        StorageError: the root cannot be read.
    """
    if runs and since is not None:
        raise UsageError("--run and --since both choose the runs; give one of them")
    if runs:
        return _held(root, runs)
    begin = None if since is None else _begin(since)
    known = stored_runs(root)
    _some(known, root.address)
    if begin is None:
        return None
    whole = [run for run in known if run.complete]
    found = [run.id for run in whole if run.started_at is not None and run.started_at >= begin]
    if not found:
        newest = ", ".join(map(str, whole[:_CHOICES]))
        raise NoRunError(f"--since {since}: no complete run began then or later; the newest are {newest}")
    return found


def narrow(connection: duckdb.DuckDBPyConnection, chosen: Sequence[str]) -> None:
    """Let the views of ``queries/views.sql`` show some runs alone.

    Args:
        connection: to the views.
        chosen: ids of the runs.
    """
    connection.register("chosen", pa.table({"run_id": pa.array(chosen, pa.string())}))
    for name in _TABLES:
        # In memory: every question of a report reads the rows again, and files would be opened as often.
        kept = connection.sql(f"from {name} where run_id in (from chosen)").to_arrow_table()
        connection.unregister(name)
        connection.register(name, kept)


def _begin(since: str) -> datetime:
    if days := _DAYS.fullmatch(since):
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    try:
        return datetime.combine(date.fromisoformat(since), datetime.min.time(), UTC)
    except ValueError:
        raise UsageError(f"--since {since}: give a day as YYYY-MM-DD, or a number of days as 7d") from None


def _some(known: Sequence[StoredRun], where: str) -> None:
    """See that there is a run that can be reported on."""
    try:
        find(known, "latest", where)
    except UsageError as error:
        if any(run.complete and run.tried for run in known):
            raise
        raise NoRunError(str(error)) from None


def _held(root: Root, references: Sequence[str]) -> list[str]:
    """Resolve references; those of a file's rows must be of complete runs of the root as well."""
    found = [run_id for text in references for run_id in resolve(root, text)]
    if any(is_file(part) for text in references for part in text.split(",")):
        known = stored_runs(root)
        for run_id in found:
            find(known, run_id, root.address)
    return list(dict.fromkeys(found))
