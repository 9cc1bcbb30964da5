"""Generated results are results like any other: whole, counted, and found by the ways that find those of a run."""

from __future__ import annotations

from flows.query import ask
from flows.references import resolve
from flows.storage import LocalRoot
from flows.verify import verify
from selfcheck.dataset import Shape, batches, new_runs, write, write_wide

SHAPE = Shape(runs=2, kernels=1, samples=5)


def test_a_run_counts_the_cases_that_it_has_and_is_found_as_the_latest(tmp_path):
    runs = list(new_runs(SHAPE.runs))
    for run in runs:
        write(tmp_path, run, batches(run, SHAPE))
    root = LocalRoot(tmp_path)
    rows = ask(root, "from runs", {}).table.to_pylist()
    (cases,) = {
        row["cases"]
        for row in ask(
            root, "select run_id, count(distinct case_id) cases from timings group by 1", {}
        ).table.to_pylist()
    }
    assert [(row["planned"], row["ok"], row["failed"], row["skipped"]) for row in rows] == [(cases, cases, 0, 0)] * 2
    assert resolve(root, "latest") == [runs[-1].id]
    assert verify(root).problems == []


def test_a_run_of_few_rows_and_many_samples_counts_them_too(tmp_path):
    write_wide(tmp_path, files=2, nbytes=1 << 14)
    (row,) = ask(LocalRoot(tmp_path), "from runs", {}).table.to_pylist()
    (found,) = ask(LocalRoot(tmp_path), "select count(distinct case_id) cases from timings", {}).table.to_pylist()
    assert row["planned"] == row["ok"] == found["cases"]
