"""The end of a run: what it says of the files that it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.brief import Brief
from flows.closing import closing
from flows.execution import Summary
from tests.flows.stored import measured, new_run


@pytest.mark.parametrize(("parts", "says"), [(1, ""), (3, " and 2 more of this run")])
def test_every_file_of_timings_is_counted_and_one_is_named(tmp_path: Path, parts: int, says: str) -> None:
    run = new_run()
    timings = [tmp_path / "timings" / "date=2025-11-03" / f"{run.id}-{number}.parquet" for number in range(parts)]
    files = [*timings, tmp_path / "runs" / "date=2025-11-03" / f"{run.id}.parquet"]
    summary = Summary(run, [Brief.of(each) for each in measured(run)], files=files)
    lines = [line for line in closing(summary, 200) if isinstance(line, str)]
    (line,) = [line for line in lines if line.startswith("timings: ")]
    assert line == f"timings: {timings[0]}{says}"
    # The line that reads them reads all.
    assert any(f"{timings[0].parent}/{run.id}-*" in line for line in lines)
