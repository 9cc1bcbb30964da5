"""Where the cases of a report changed for good, of those that its history shows; nothing of Prefect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flows.history import LEAST_RUNS, ChangePoint, History, histories
from flows.storage import Root

Row = dict[str, Any]


def changes(root: Root, cases: Sequence[Row], history: Sequence[Row]) -> list[Row]:
    """Find the change points of the cases that the history shows where nothing is filtered: each kernel's largest.

    Args:
        root: of the results.
        cases: of the report.
        history: of the report.

    Returns:
        A row for each, the newest first: the case, the last run of the old level and the first of the new one, new
        over old time with its 95 % interval, and what else is not the same in the two runs, in words.

    Raises:
        StorageError: the root cannot be read.
    """
    runs = Counter(row["case_id"] for row in history)
    names = sorted({case["case_id"] for case in cases if case["largest"] and runs[case["case_id"]] >= 2 * LEAST_RUNS})
    if not names:
        return []
    known = {_key(case) for case in cases}
    rows = [_row(each, change) for each in histories(root, names) for change in each.changes]
    return sorted((row for row in rows if _key(row) in known), key=lambda row: row["started_at"], reverse=True)


def _row(history: History, change: ChangePoint) -> Row:
    return {
        "case_id": history.key.case_id,
        "machine": history.machine,
        "workers": history.key.workers or None,
        "cold": history.key.cold,
        "before": change.before.run.id,
        "run_id": change.after.run.id,
        "started_at": change.after.run.started_at,
        "ratio": change.ratio.value,
        "low": change.ratio.low,
        "high": change.ratio.high,
        "changed": ", ".join(map(str, change.changes)) or "nothing that is recorded",
    }


def _key(row: Row) -> tuple[str, str, int, bool]:
    return row["case_id"], row["machine"] or "unknown", row["workers"] or 0, bool(row["cold"])
