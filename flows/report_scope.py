"""Which runs a report is about, and the views of stored results narrowed to them; nothing of Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import duckdb
import pyarrow as pa

from flows.references import find, resolve, stored_runs
from flows.storage import Root
from flows.timings_file import is_file
from kernels.errors import UsageError

_CHOICES = 5

_TABLES = ("timings_files", "runs_files", "rowless_runs")


def choose(root: Root, runs: Sequence[str], since: str | None) -> list[str] | None:
    """Find the runs that a report is to be about.

    Args:
        root: of the results.
        runs: references, as ``flows.references.resolve`` takes them.
        since: a day in UTC, as YYYY-MM-DD: all complete runs begun on it or later.

    Returns:
        Ids; None where nothing is chosen: the newest complete run of each case then.

    Raises:
        UsageError: there is no such run, it is incomplete, no run began since, or the root holds no complete one.
        StorageError: the root cannot be read.
    """
    if runs and since is not None:
        raise UsageError("--run and --since both choose the runs; give one of them")
    if runs:
        return _held(root, runs)
    known = stored_runs(root)
    if since is None:
        find(known, "latest", root.address)
        return None
    try:
        begin = datetime.combine(date.fromisoformat(since), datetime.min.time(), UTC)
    except ValueError:
        raise UsageError(f"--since {since}: give a day as YYYY-MM-DD") from None
    whole = [run for run in known if run.complete]
    found = [run.id for run in whole if run.started_at is not None and run.started_at >= begin]
    if not found:
        find(known, "latest", root.address)
        newest = ", ".join(map(str, whole[:_CHOICES]))
        raise UsageError(f"--since {since}: no complete run began then or later; the newest are {newest}")
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


def _held(root: Root, references: Sequence[str]) -> list[str]:
    """Resolve references; those of a file's rows must be of complete runs of the root as well."""
    found = [run_id for text in references for run_id in resolve(root, text)]
    if any(is_file(part) for text in references for part in text.split(",")):
        known = stored_runs(root)
        for run_id in found:
            find(known, run_id, root.address)
    return list(dict.fromkeys(found))
