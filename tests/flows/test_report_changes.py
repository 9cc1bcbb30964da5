"""Change points in a report: found where `jitmatrix history` finds them, with what else changed there."""

from __future__ import annotations

from pathlib import Path

from flows.history import histories
from flows.report_data import gather
from flows.report_page import page
from flows.report_payload import history
from flows.storage import LocalRoot
from tests.flows.test_history import DENSE, nights


def test_a_change_that_stays_is_marked_with_the_versions_and_commits_on_both_sides(tmp_path: Path) -> None:
    runs = nights(tmp_path, [1.0] * 6 + [1.1] * 5, change=6)
    root = LocalRoot(tmp_path)
    data = gather(root)
    (largest,) = (case["case_id"] for case in data.cases if case["largest"])
    assert largest == DENSE[-1].id
    (found,) = histories(root, [largest])
    assert [row["ratio"] for row in data.changes] == [change.ratio.value for change in found.changes]
    assert len(data.changes) == 1
    for row in data.changes:
        assert (row["before"], row["run_id"]) == (runs[5], runs[6])
        assert row["changed"] == f"jax 0.7.1 → 0.7.2, commit {'a' * 12} → {'b' * 12}"
    carried = history(data)
    assert {carried["runs"][run][0] for _, run, *_ in carried["changes"]} == {runs[6]}
    text = page(data, "results")
    assert "jax 0.7.1 → 0.7.2" in text
    assert text.count("<h3>Changes for good</h3>") == 1


def test_a_history_without_a_change_has_no_mark(tmp_path: Path) -> None:
    nights(tmp_path, [1.0] * 7, change=99)
    data = gather(LocalRoot(tmp_path))
    assert data.changes == []
    assert "<h3>Changes for good</h3>" not in page(data, "results")
