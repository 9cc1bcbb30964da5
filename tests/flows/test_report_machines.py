"""A report over several machines: what tells them apart, and what is said of cases that none of them had."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from flows import untaken
from flows.report_data import gather
from flows.report_page import page
from flows.results import uuid7
from flows.storage import LocalRoot
from tests.flows.stored import new_run, write_run
from tests.flows.test_untaken import REASON, share


def written(folder: Path, *processors: str) -> set[str]:
    """Write a run of each machine, and one that none took; give the machines."""
    runs = [new_run() for _ in processors]
    runs = [
        replace(run, machine=replace(run.machine, cpu_model=name)) for run, name in zip(runs, processors, strict=True)
    ]
    for run in runs:
        write_run(folder, run)
    untaken.record(share(folder), str(uuid7()), REASON, failed=True, note=print)
    return {run.machine.fingerprint for run in runs}


def test_cases_that_no_machine_had_stand_in_a_panel_that_says_so(tmp_path: Path) -> None:
    machines = written(tmp_path, "one", "another")
    assert len(machines) == 2
    data = gather(LocalRoot(tmp_path))
    panels = {case["machine"]: case["panel"] for case in data.cases}
    assert panels.keys() == {*machines, None}
    for machine in machines:
        assert panels[machine].endswith(f", machine {machine}")
    assert panels[None].endswith(", no machine")
    assert "machine None" not in page(data, "results")


def test_one_machine_needs_no_name_beside_what_none_had(tmp_path: Path) -> None:
    written(tmp_path, "one")
    assert not any("machine" in case["panel"] for case in gather(LocalRoot(tmp_path)).cases)


def test_the_page_describes_the_machines_that_there_were_and_no_other(tmp_path: Path) -> None:
    machines = written(tmp_path, "one", "another")
    text = page(gather(LocalRoot(tmp_path), since="2025-01-01"), "results")
    assert set(re.findall(r"<dt>fingerprint</dt><dd>(.*?)</dd>", text)) == machines
    assert text.count("<dl>") == len(machines)
