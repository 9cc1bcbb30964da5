"""Two sides to verdicts: what is compared, what is not and why, and what decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.compare import compare
from flows.comparison import Compared, Comparison
from flows.results import Run
from flows.storage import LocalRoot
from kernels.case import Case
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
