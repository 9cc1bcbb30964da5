"""The deployment: a real server, a process work pool and a worker on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.holdings import holdings
from flows.layout import Kind
from flows.storage import LocalRoot
from kernels.frameworks import modes
from tests.flows.conftest import ROOT
from tests.flows.prefect_server import PrefectServer, running
from tests.flows.stored import DAY, expected, rows_of, write_run


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrefectServer]:
    """Run a server of this test's own."""
    with running(tmp_path) as server:
        yield server


def test_every_deployment_deploys_and_runs_on_a_worker(server: PrefectServer, tmp_path: Path) -> None:
    server.jitmatrix("deploy", "--create", "process")
    # A schedule that nobody asked for would remove files.
    assert "'active': False" in server.prefect("deployment", "inspect", "compact/daily")
    closed = [write_run(tmp_path / "results") for _ in range(2)]
    with server.worker("jitmatrix-cpu"):
        filters = ("--param", "matrix=smoke", "--param", 'kernel=["double"]')
        assert "Completed" in server.prefect("deployment", "run", "bench/cpu", *filters, "--watch")
        assert "Completed" in server.prefect("deployment", "run", "compact/daily", "--watch")
        assert "Completed" in server.prefect("deployment", "run", "report/weekly", "--watch")
    folder = LocalRoot(tmp_path / "results")
    assert [held.place.kind for held in holdings(folder).files.values() if held.place.day == DAY.date()] == [
        Kind.COMPACT
    ] * 2
    assert expected(closed) < rows_of(folder)
    (report,) = folder.path.glob("reports/*/*.html")
    assert report.stat().st_size > 0
    rows = pd.read_parquet(tmp_path / "results" / "timings")
    rows = rows[~rows.run_id.isin([run.id for run in closed])]
    # What is not installed here is a row too.
    assert {"ok", "skipped"} <= set(rows[rows.phase == "steady"].status) <= {"ok", "skipped", "unavailable"}
    assert rows.case_id.nunique() == len(modes())


def test_deployments_stand_in_alphabetical_order_and_load_no_module_twice() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    names = [f"{entry['entrypoint']}/{entry['name']}" for entry in deployments]
    assert names == sorted(names)
    assert all(".py" not in entry["entrypoint"] for entry in deployments)
