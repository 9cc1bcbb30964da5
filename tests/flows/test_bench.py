"""The flow: every planned cell becomes rows, whatever its process meets."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from flows.bench import Summary, bench, command
from flows.order import Order
from flows.progress import CURRENT
from kernels.measurement import Measurement
from kernels.phase import Phase
from kernels.selection import Filters
from tests.flows.conftest import using

pytestmark = pytest.mark.usefixtures("shared_server")

KILLED = "double-numpy-eager-S-float32-cpu"
HUNG = "total-numpy-eager-S-float32-cpu"


class Saboteur:
    """Listens to a run, kills the process of one case and stops that of another for good."""

    def __init__(self) -> None:
        self.summary: Summary | None = None
        self.faults = {KILLED: signal.SIGKILL, HUNG: signal.SIGSTOP}

    def begin(self, cases: int, turns: int) -> None:
        pass

    def turn(self, case_id: str, round_number: int) -> None:
        number = self.faults.pop(case_id, None)
        if number is not None:
            threading.Thread(target=_signal_case, args=(number,), daemon=True).start()

    def done(self, measurement: Measurement) -> None:
        pass

    def note(self, line: str) -> None:
        pass

    def end(self, summary: Summary) -> None:
        self.summary = summary


def _signal_case(number: int) -> None:
    """Signal the process that a fork server of this test has forked, as soon as there is one."""
    for _ in range(2000):
        for server in _children(os.getpid()):
            if "kernels.forkserver" in Path(f"/proc/{server}/cmdline").read_text():
                for case in _children(server):
                    os.kill(case, number)
                    return
        time.sleep(0.005)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(p) for t in Path(f"/proc/{pid}/task").glob("*/children") for p in t.read_text().split()]
    return []


@pytest.fixture(scope="module")
def sabotaged(own_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Summary, str]]:
    root = tmp_path_factory.mktemp("results")
    listener = Saboteur()
    token = CURRENT.set(listener)
    with using(own_server):
        state = bench(
            matrix="smoke", kernel=["dense", "double", "sincos", "total"], framework=["numpy", "jax/jit", "python"],
            rounds=2, timeout_s=15, results=str(root), return_state=True,
        )  # fmt: skip
    CURRENT.reset(token)
    assert listener.summary is not None
    yield root, listener.summary, f"{state.name}, {state.type.value}: {state.message}"


def test_a_killed_and_a_hung_case_are_rows_and_all_others_are_there(sabotaged: tuple[Path, Summary, str]) -> None:
    root, _, _ = sabotaged
    query = f"select case_id, any_value(status), any_value(reason) from '{root}/timings/*/*.parquet' group by 1"
    found = {case: (status, reason) for case, status, reason in duckdb.sql(query).fetchall()}
    assert len(found) == 16
    assert found[KILLED][0] == "killed"
    assert "SIGKILL" in found[KILLED][1]
    assert found[HUNG] == ("timeout", "no end after 15 s; the process was ended")
    others = {status for case, (status, _) in found.items() if case not in (KILLED, HUNG)}
    assert others == {"ok", "skipped"}


def test_planned_is_ok_plus_failed_plus_skipped(sabotaged: tuple[Path, Summary, str]) -> None:
    root, summary, state = sabotaged
    (run,) = pd.read_parquet(root / "runs").to_dict("records")
    assert (run["planned"], run["ok"], run["failed"], run["skipped"]) == (16, 6, 2, 8)
    assert run["complete"]
    assert state == "CompletedWithFailedCases, FAILED: 16 planned = 6 ok + 2 failed + 8 skipped"
    assert len(summary.measurements) == 16


def test_there_is_a_row_for_each_planned_case_and_phase(sabotaged: tuple[Path, Summary, str]) -> None:
    root, summary, _ = sabotaged
    rows = pd.read_parquet(root / "timings")
    planned = {(m.case.id, phase.value) for m in summary.measurements for phase in m.planned}
    assert {tuple(pair) for pair in rows[["case_id", "phase"]].itertuples(index=False)} == planned
    timed = rows[(rows.case_id == "dense-jax-jit-S-float32-cpu") & (rows.phase == Phase.COMPILE)].iloc[0]
    assert timed.compiles == timed["rounds"] == 2
    assert len(timed.samples) == len(timed.inner_calls) == 2
    assert timed.low_ns <= timed.median_ns <= timed.high_ns


def test_the_marker_names_the_files_with_their_sizes_and_hashes(sabotaged: tuple[Path, Summary, str]) -> None:
    root, summary, _ = sabotaged
    (marker,) = root.glob("runs/*/_*.json")
    whole = json.loads(marker.read_text())
    assert whole["run_id"] == summary.run.id
    assert {file["key"] for file in whole["files"]} == {str(path.relative_to(root)) for path in summary.files}
    assert all((root / file["key"]).stat().st_size == file["nbytes"] for file in whole["files"])


def test_a_wrong_parameter_fails_the_flow_with_one_line(tmp_path: Path) -> None:
    state = bench(matrix="smoke", kernel=["dens"], results=str(tmp_path / "results"), return_state=True)
    assert (state.name, state.type.value) == ("Refused", "FAILED")
    assert "did you mean dense?" in (state.message or "")
    assert not (tmp_path / "results").exists()


def test_a_deployment_that_names_no_backend_takes_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_BACKEND", "gpu")
    # NumPy has no GPU: what would be measured on the cpu is refused.
    state = bench(matrix="smoke", framework=["numpy"], results=str(tmp_path / "results"), return_state=True)
    assert (state.name, state.type.value) == ("Refused", "FAILED")
    assert "no case is left of matrix smoke under --framework numpy --backend gpu" in (state.message or "")
    assert not (tmp_path / "results").exists()


def test_the_command_of_a_run_is_the_order_again(tmp_path: Path) -> None:
    sampling = {"rounds": 3, "cold": True, "min_sample_ms": 5.0}
    filters = Filters(kernel=("double",), framework=("jax/jit", "numpy"))
    order = Order.of("smoke", filters, sampling, str(tmp_path / "a folder"), programs=True)
    words = shlex.split(command(order) or "")
    assert words[:4] == ["jitmatrix", "bench", "--matrix", "smoke"]
    for pair in (["--kernel", "double"], ["--framework", "jax/jit"], ["--rounds", "3"], ["--min-sample", "5"]):
        assert any(words[i : i + 2] == pair for i in range(len(words)))
    assert {"--cold", "--programs"} <= set(words)
    assert words[-2:] == ["--results", str(tmp_path / "a folder")]


def test_the_parameters_have_a_readable_form() -> None:
    properties = bench.parameters.properties
    assert "name of a matrix" in properties["matrix"]["description"]
    assert all(entry.get("description") for entry in properties.values())
