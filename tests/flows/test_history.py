"""A case over all runs: where its time changed for good, and what else changed there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from flows.history import change_points, histories
from flows.ratios import interval
from flows.results import Run
from flows.storage import LocalRoot
from kernels.errors import UsageError
from tests.flows.conftest import Command
from tests.flows.stored import DAY, new_run, write_run
from tests.flows.test_compare import CASES, run_of

DENSE = [case for case in CASES if case.kernel == "dense" and case.framework == "jax"]


def nights(folder: Path, factors: list[float], change: int) -> list[str]:
    """Write a run a night; from the night of the change on with another JAX and another commit."""

    def on(night: int) -> Run:
        run = new_run(DAY + timedelta(days=night))
        version, commit = ("0.7.2", "b" * 40) if night >= change else ("0.7.1", "a" * 40)
        versions = {**run.environment.versions, "jax": version}
        return replace(run, environment=replace(run.environment, versions=versions, commit=commit, dirty=False))

    return [
        run_of(folder, DENSE, {"": factor}, noise=0.02, seed=night, run=on(night))
        for night, factor in enumerate(factors)
    ]


def test_a_change_that_stays_is_found_with_the_versions_and_commits_on_both_sides(tmp_path: Path) -> None:
    runs = nights(tmp_path, [1.0] * 6 + [1.1] * 5, change=6)
    (found, _) = histories(LocalRoot(tmp_path), ["dense"])
    assert [point.run.id for point in found.points] == runs
    (change,) = found.changes
    assert (change.before.run.id, change.after.run.id) == (runs[5], runs[6])
    assert change.ratio.low < 1.1 < change.ratio.high
    assert [str(each) for each in change.changes] == ["jax 0.7.1 → 0.7.2", f"commit {'a' * 12} → {'b' * 12}"]


def test_one_slow_night_a_drift_within_what_matters_and_a_short_series_have_no_change(tmp_path: Path) -> None:
    for name, factors in (("night", [1.0] * 6 + [1.5] + [1.0] * 6), ("drift", [1.0] * 6 + [1.03] * 6), ("few", [1, 2])):
        nights(tmp_path / name, factors, change=99)
        assert all(each.changes == () for each in histories(LocalRoot(tmp_path / name), [DENSE[0].id]))


def test_a_level_whose_runs_scatter_so_much_that_it_may_be_the_old_one_is_no_change(tmp_path: Path) -> None:
    nights(tmp_path, [1.0] * 6 + [1.06, 2.2, 2.3], change=99)
    (found,) = histories(LocalRoot(tmp_path), [DENSE[0].id])
    sides = [[point.timed.runs[0] for point in side] for side in (found.points[:6], found.points[6:])]
    ratio, _ = interval(*sides)
    assert ratio.value > 1.5
    assert ratio.low < 1 < ratio.high
    assert found.changes == ()


@pytest.mark.parametrize("runs", [8, 30, 100])
def test_series_in_which_nothing_changed_seldom_have_a_change(runs: int) -> None:
    rng = np.random.default_rng(0)
    found = [change_points(rng.normal(0, 0.02, runs), np.full(runs, 0.02)) for _ in range(200)]
    assert sum(map(bool, found)) <= 6
    step = [
        change_points(rng.normal(0, 0.02, runs) + np.log(1.1) * (np.arange(runs) >= runs // 2), np.full(runs, 0.02))
        for _ in range(100)
    ]
    assert sum(len(each) == 1 and abs(each[0] - runs // 2) <= 1 for each in step) >= 80


def test_what_was_never_measured_is_one_line_with_the_kernels_that_were(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no complete run yet"):
        histories(LocalRoot(tmp_path), ["dense"])
    write_run(tmp_path)
    with pytest.raises(
        UsageError, match=r"unknown kernel or case 'dubble' .*: choose from double, total; did you mean"
    ):
        histories(LocalRoot(tmp_path), ["dubble"])
    with pytest.raises(UsageError, match="unknown phase"):
        histories(LocalRoot(tmp_path), ["double"], phase="steddy")


def test_the_command_shows_runs_and_changes(jitmatrix: Command, tmp_path: Path) -> None:
    runs = nights(tmp_path / "results", [1.0] * 6 + [1.2] * 4, change=6)
    done = jitmatrix("history", "dense", "--framework", "jax/jit")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--- slower, 1.2" in done.stdout
    assert "jax 0.7.1 → 0.7.2" in done.stdout
    value = json.loads(jitmatrix("history", DENSE[0].id, "--format", "json").stdout)
    assert [each["run"] for each in value[0]["runs"]] == runs
    assert value[0]["changes"][0]["after"] == runs[6]
    for words in ((), ("dense", "--framework", "jx")):
        refused = jitmatrix("history", *words)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "did you mean jax?" in refused.stderr
