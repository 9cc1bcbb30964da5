"""Two sides to verdicts: what is compared, what is not and why, and what decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.compare import compare
from flows.comparison import Compared, Comparison
from flows.history import histories
from flows.results import Run
from flows.storage import LocalRoot
from kernels.case import Case
from kernels.discovery import describe, suite
from kernels.errors import UsageError
from kernels.measurement import Measurement, Status
from kernels.statistics import Verdict
from tests.flows.stored import new_run
from tests.flows.test_query import measured, timed, write

KERNELS = ("dense", "double", "sincos", "total")
NAMES = ("numpy/eager", "jax/jit")
CASES = [Case(kernel, *name.split("/"), size, "float32") for kernel in KERNELS for name in NAMES for size in ("S", "M")]


def run_of(
    folder: Path,
    cases: Iterable[Case] = CASES,
    factors: dict[str, float] | None = None,
    noise: float = 0.01,
    seed: int = 0,
    run: Run | None = None,
) -> str:
    """Write a run of five rounds; a case whose id has one of the keys in it takes so many times longer."""
    rng = np.random.default_rng(seed)
    return write(folder, *(one(rng, case, factors or {}, noise) for case in cases), run=run).id


def one(rng: np.random.Generator, case: Case, factors: dict[str, float], noise: float = 0.01) -> Measurement:
    factor = float(np.prod([value for key, value in factors.items() if key in case.id]))
    steady, first = (
        timed(phase, *(factor * ns * np.exp(rng.normal(0, noise, 5))))
        for phase, ns in (("steady", 1e6), ("first_call", 1e8))
    )
    return measured(case, steady, first)


def by(found: Comparison, case_id: str, phase: str = "steady") -> Compared:
    (each,) = [each for each in found.cases if each.case_id == case_id and each.phase == phase]
    return each


def test_what_takes_a_tenth_longer_is_a_regression_and_all_else_the_same(tmp_path: Path) -> None:
    before = run_of(tmp_path, seed=1)
    after = run_of(tmp_path, factors={"dense": 1.1}, seed=2)
    found = compare(LocalRoot(tmp_path), before, after)
    assert {each.kernel for each in found.regressions} == {"dense"}
    assert len(found.regressions) == 2 * len(NAMES) * 2
    assert not found.passed
    assert {each.verdict for each in found.cases if each.kernel != "dense"} == {Verdict.SAME}
    assert all(each.ratio.low < 1.1 * 1.02 and each.ratio.high > 1.1 / 1.02 for each in found.regressions)


def test_the_ratio_is_candidate_over_baseline_and_a_mean_is_that_of_ratios(tmp_path: Path) -> None:
    # psf/pyperf#79: of times [1, 100] and [10, 10] the mean of times says 5 times faster, the mean of ratios 1.
    first, second = CASES[0], CASES[1]
    before = write(tmp_path, measured(first, timed("steady", 10, 10)), measured(second, timed("steady", 1000, 1000)))
    after = write(tmp_path, measured(first, timed("steady", 100, 100)), measured(second, timed("steady", 100, 100)))
    found = compare(LocalRoot(tmp_path), before.id, after.id)
    assert by(found, first.id).ratio.value == pytest.approx(10)
    assert by(found, second.id).ratio.value == pytest.approx(0.1)
    (mean,) = [mean for mean in found.means if mean.group == "all"]
    assert mean.ratio.value == pytest.approx(1.0)


def test_a_case_that_is_lost_is_named_and_improves_no_mean(tmp_path: Path) -> None:
    slow = CASES[0]
    before = run_of(tmp_path, factors={slow.id: 100.0}, seed=1)
    after = run_of(tmp_path, CASES[1:], seed=2)
    found = compare(LocalRoot(tmp_path), before, after)
    assert [str(left) for left in found.lost] == [f"{slow.id}: not in the candidate"]
    assert (found.common, found.of) == (len(CASES) - 1, len(CASES))
    (mean,) = [mean for mean in found.means if mean.group == "all" and mean.phase == "steady"]
    assert mean.cases == len(CASES) - 1
    assert mean.ratio.value == pytest.approx(1.0, abs=0.02)
    assert found.passed


def test_a_case_that_fails_now_fails_the_comparison(tmp_path: Path) -> None:
    before = run_of(tmp_path, CASES[:4])
    rng = np.random.default_rng(2)
    broken = measured(CASES[0], status=Status.WRONG, reason="output 0 differs")
    after = write(tmp_path, broken, *(one(rng, case, {}) for case in CASES[1:4]))
    found = compare(LocalRoot(tmp_path), before, after.id)
    assert [str(left) for left in found.broken] == [f"{CASES[0].id}: wrong in the candidate (output 0 differs)"]
    assert not found.regressions
    assert not found.passed
    assert compare(LocalRoot(tmp_path), after.id, before).new[0].case_id == CASES[0].id


def test_a_flagged_timing_is_never_compared_and_is_named(tmp_path: Path) -> None:
    before = run_of(tmp_path, CASES[:4])
    rng = np.random.default_rng(2)
    noisy = measured(CASES[0], timed("steady", 1e9, 1e9, flags={"noisy": "why"}), timed("first_call", 1e8, 1.01e8))
    after = write(tmp_path, noisy, *(one(rng, case, {}) for case in CASES[1:4]))
    found = compare(LocalRoot(tmp_path), before, after.id)
    assert [str(left) for left in found.flagged] == [f"{CASES[0].id} steady: noisy in the candidate"]
    assert {each.phase.value for each in found.cases if each.case_id == CASES[0].id} == {"first_call"}
    assert found.passed


def test_coverage_counts_what_of_the_baseline_may_be_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    flagged = measured(
        CASES[0], *(timed(phase, 1e9, 1e9, flags={"noisy": "why"}) for phase in ("steady", "first_call"))
    )
    noisy = write(tmp_path, flagged, *(one(rng, case, {}) for case in CASES[1:4]))
    whole = run_of(tmp_path, CASES[:4])
    found = compare(LocalRoot(tmp_path), noisy.id, whole)
    assert (found.common, found.of) == (3, 3)
    assert [left.case_id for left in found.flagged] == [f"{CASES[0].id} first_call", f"{CASES[0].id} steady"]
    again = compare(LocalRoot(tmp_path), whole, noisy.id)
    assert (again.common, again.of) == (3, 4)


def test_a_gate_that_would_compare_nothing_is_refused(tmp_path: Path) -> None:
    before = run_of(tmp_path, CASES[:2])
    noisy = [measured(case, timed("steady", 1e9, 1e9, flags={"noisy": "why"})) for case in CASES[:2]]
    after = write(tmp_path, *noisy)
    with pytest.raises(UsageError, match=r"of 2 cases that are ok in both no timing of .* may be compared: .*noisy"):
        compare(LocalRoot(tmp_path), before, after.id)


def test_a_gate_in_which_no_phase_that_decides_is_compared_is_refused(tmp_path: Path) -> None:
    before, after = run_of(tmp_path, CASES[:2]), run_of(tmp_path, CASES[:2], seed=2)
    with pytest.raises(UsageError, match=r"no timing of device may be compared: it was not timed in both; --phase"):
        compare(LocalRoot(tmp_path), before, after, phases=["device"])


SAMPLES = {
    "a sample of 0 ns": ([[0, 0, 0], [2, 2, 2]], [1, 1]),
    "a round without samples": ([[2, 2], []], [1, 1]),
    "samples of an unknown number of calls": ([[2, 2], [2, 2]], [1]),
}
"""What may stand in a file that jitmatrix did not write: why it is not compared, to samples and inner calls."""


@pytest.mark.parametrize("why", SAMPLES)
def test_samples_that_can_be_in_no_ratio_are_left_out_and_named(tmp_path: Path, why: str) -> None:
    for folder, seed in (("a", 1), ("b", 2)):
        run_of(tmp_path / folder, CASES[:4], seed=seed)
    files = [next((tmp_path / name).glob("timings/*/*.parquet")) for name in "ab"]
    table = pq.read_table(files[1], partitioning=None)
    rows = table.to_pylist()
    (row,) = [row for row in rows if row["case_id"] == CASES[0].id and row["phase"] == "steady"]
    row["samples"], row["inner_calls"] = SAMPLES[why]
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.Table.from_pylist(rows, table.schema), foreign)
    found = compare(LocalRoot(tmp_path), str(files[0]), str(foreign))
    assert [str(left) for left in found.flagged] == [f"{CASES[0].id} steady: {why} in the candidate"]
    assert len(found.cases) == 2 * 4 - 1
    assert found.passed


def test_a_run_whose_clock_stood_still_is_in_no_history(tmp_path: Path) -> None:
    for ns in (100.0, 101.0, 0.0):
        write(tmp_path, measured(CASES[0], timed("steady", ns, ns)))
    (found,) = histories(LocalRoot(tmp_path), [CASES[0].id])
    assert [point.ns for point in found.points] == [100.0, 101.0]
    assert found.flagged == 1


def test_other_machines_are_refused_unless_asked_for_and_labelled_then(tmp_path: Path) -> None:
    other = new_run()
    other = replace(other, machine=replace(other.machine, cpu_model="another processor"))
    before, after = run_of(tmp_path), run_of(tmp_path, run=other)
    with pytest.raises(UsageError, match=r"different machines .*--across-machines"):
        compare(LocalRoot(tmp_path), before, after)
    found = compare(LocalRoot(tmp_path), before, after, across_machines=True)
    assert other.machine.fingerprint in found.machines[0]
    assert any(line.startswith("DIFFERENT MACHINES") for line in found.lines())


def test_a_clock_that_jitters_makes_no_other_machine(tmp_path: Path) -> None:
    # ionelmc/pytest-benchmark#255: fingerprints with MHz in them matched nothing.
    first, second = new_run(), new_run()
    second = replace(second, environment=replace(second.environment, load=7.5, hostname="elsewhere"))
    assert compare(LocalRoot(tmp_path), run_of(tmp_path, run=first), run_of(tmp_path, run=second)).passed


def test_what_else_changed_is_named_for_each_case_and_other_frameworks_are_left_out(tmp_path: Path) -> None:
    first = new_run()
    versions = {**first.environment.versions, "jax": "0.7.1", "torch": "2.8.0"}
    old = replace(
        first.environment, versions=versions, variables={"XLA_FLAGS": "--xla_a"}, driver="560", commit="a" * 40
    )
    new = replace(old, versions={**versions, "jax": "0.7.2", "torch": "2.9.0"}, variables={}, driver="570", image="x:2")
    before = run_of(tmp_path, run=replace(first, environment=old), seed=1)
    after = run_of(tmp_path, run=replace(new_run(), environment=new), factors={"dense": 1.2}, seed=2)
    found = compare(LocalRoot(tmp_path), before, after)
    (jax,) = [
        each for each in found.regressions if each.case_id == "dense-jax-jit-S-float32-cpu" and each.phase == "steady"
    ]
    changes = [str(change) for change in jax.changes]
    assert "jax 0.7.1 → 0.7.2" in changes
    assert "XLA_FLAGS --xla_a → none" in changes
    assert "driver 560 → 570" in changes
    assert "image none → x:2" in changes
    assert not any("torch" in change for change in changes)
    assert not any("jax" in str(change) for change in by(found, "dense-numpy-eager-S-float32-cpu").changes)


def with_facts(case: Case, ns: float, rng: np.random.Generator, **facts: object) -> Measurement:
    steady = timed("steady", *(ns * np.exp(rng.normal(0, 0.01, 5))))
    return replace(measured(case, steady), facts=facts)


def test_the_program_and_the_clock_are_held_against_each_other_case_by_case(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    case, other = CASES[2], CASES[3]
    before = write(
        tmp_path,
        with_facts(case, 1e6, rng, program_hash="a" * 64, cpu_mhz=3000.0),
        with_facts(other, 1e6, rng, program_hash="c" * 64, cpu_mhz=3000.0),
    )
    after = write(
        tmp_path,
        with_facts(case, 1.3e6, rng, program_hash="b" * 64, cpu_mhz=2000.0),
        with_facts(other, 1e6, rng, program_hash="c" * 64, cpu_mhz=3050.0),
    )
    found = compare(LocalRoot(tmp_path), before.id, after.id)
    assert [str(change) for change in by(found, case.id).changes] == [
        f"program {'a' * 12} → {'b' * 12}",
        "processor's clock 3000 MHz → 2000 MHz",
    ]
    assert by(found, other.id).changes == ()


def test_cases_in_which_nothing_changed_show_how_far_two_runs_lie_apart(tmp_path: Path) -> None:
    # Everything is 6 % slower in the second run and nothing changed: the machine did, and no kernel is to blame.
    before = run_of(tmp_path, seed=1)
    after = run_of(tmp_path, factors={"": 1.06}, seed=2)
    found = compare(LocalRoot(tmp_path), before, after)
    assert found.between[found.phases[0]].controls == len(CASES)
    assert found.between[found.phases[0]].deviation == pytest.approx(0.058, rel=0.2)
    assert found.passed
    assert {each.verdict for each in found.cases} == {Verdict.UNCLEAR}


def test_several_runs_are_one_side_and_show_their_own_spread(tmp_path: Path) -> None:
    drift = [run_of(tmp_path, factors={"": factor}, seed=seed) for seed, factor in enumerate((1.0, 1.1, 0.92, 1.03))]
    assert compare(LocalRoot(tmp_path), drift[:3], drift[3:]).passed
    found = compare(LocalRoot(tmp_path), ",".join(drift[:3]), drift[3])
    assert not found.between
    assert found.passed
    assert compare(LocalRoot(tmp_path), drift[:2], [run_of(tmp_path, factors={"": 3.0}, seed=9)]).regressions


def test_only_the_phases_that_are_asked_for_decide(tmp_path: Path) -> None:
    before = run_of(tmp_path, seed=1)
    after = run_of(tmp_path, factors={"dense": 1.2}, seed=2)
    root = LocalRoot(tmp_path)
    assert {each.phase.value for each in compare(root, before, after, phases=["steady"]).regressions} == {"steady"}
    with pytest.raises(UsageError, match="no timing of compile may be compared"):
        compare(root, before, after, phases=["compile"])
    with pytest.raises(UsageError, match=r"unknown phase 'stedy' \(--phase\): choose from .*did you mean steady"):
        compare(root, before, after, phases=["stedy"])


def test_two_files_are_compared_like_runs(tmp_path: Path) -> None:
    before, after = run_of(tmp_path / "a", seed=1), run_of(tmp_path / "b", factors={"dense": 1.2}, seed=2)
    one, other = (str(next((tmp_path / name).glob("timings/*/*.parquet"))) for name in "ab")
    found = compare(LocalRoot(tmp_path), one, other)
    assert [run.id for run in (*found.baseline, *found.candidate)] == [before, after]
    assert {each.kernel for each in found.regressions} == {"dense"}


def test_a_kernel_of_one_s_own_is_compared_with_itself_after_an_edit_and_not_with_the_suite_s(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source = str(tmp_path / "mine.py")
    describe(source, suite())
    mine = replace(CASES[0], source=source, source_sha256="a" * 64)
    before = write(tmp_path, one(rng, mine, {}), one(rng, CASES[1], {}))
    edited = replace(mine, source_sha256="b" * 64)
    after = write(tmp_path, one(rng, edited, {"dense": 2.0}), one(rng, CASES[1], {}))
    found = compare(LocalRoot(tmp_path), before.id, after.id)
    assert "kernel's file aaaaaaaaaaaa → bbbbbbbbbbbb" in map(str, by(found, mine.id).changes)
    ours = write(tmp_path, one(rng, CASES[0], {}), one(rng, CASES[1], {}))
    assert [left.case_id for left in compare(LocalRoot(tmp_path), before.id, ours.id).lost] == [mine.id]


@pytest.mark.parametrize(
    ("smallest", "says"), [(0.0, "--smallest 0"), (1.0, "above 0 and below 1"), (float("nan"), "--smallest nan")]
)
def test_a_smallest_difference_that_is_none_is_refused(tmp_path: Path, smallest: float, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        compare(LocalRoot(tmp_path), "latest~1", "latest", smallest=smallest)


def test_runs_without_a_case_in_common_are_told_with_what_they_have(tmp_path: Path) -> None:
    before, after = run_of(tmp_path, CASES[:2]), run_of(tmp_path, CASES[2:4])
    with pytest.raises(UsageError, match=f"no case is ok in both.*{CASES[1].id}"):
        compare(LocalRoot(tmp_path), before, after)
    with pytest.raises(UsageError, match="is on both sides"):
        compare(LocalRoot(tmp_path), before, before)


def test_a_side_that_names_no_run_is_refused_as_where_a_variable_is_not_set(tmp_path: Path) -> None:
    run_of(tmp_path), run_of(tmp_path)
    for text in ("", "latest,"):
        with pytest.raises(UsageError, match="names no run; give a run's id"):
            compare(LocalRoot(tmp_path), text, "latest")
