"""compare: runs of the same thing must not be called different, and a tenth more work must be found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flows.compare import compare
from flows.comparison import Compared, Comparison
from flows.storage import LocalRoot
from kernels.phase import Phase
from kernels.statistics import Verdict
from kernels.timing import GATE_ROUNDS
from selfcheck.figure import Report, at_least, at_most
from selfcheck.interleaved import NotMeasuredError
from selfcheck.own import CHAINS
from selfcheck.simulated import Pair, alarms, detection, heavy_tails, two_levels, unlike

_STEPS = {"jax": (500, 550, 512), "numpy": (100, 110, 128)}
_FILE = """from selfcheck.own.chain import kernel

for number in range({first}, {last}):
    globals()[f"KERNEL_{{number}}"] = kernel(f"{framework}_{{number:02}}", "{framework}", {steps}, {width})
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is simulated and measured.

    Attributes:
        comparisons: that are simulated for each figure; those with slowed cases are a tenth as many.
        cases: of the real runs, half of them in JAX and half in NumPy, of about 130 us.
        slowed: of these, how many do a tenth more work in the third run.
        options: of the real runs.
    """

    comparisons: int = 2000
    cases: int = 16
    slowed: int = 4
    options: tuple[str, ...] = ("--gate", "--budget", "0.8", "--seed", "0")


QUICK = Settings(3, 4, 2, ("--rounds", "2", "--budget", "0.01", "--min-sample", "0.5", "--seed", "0"))


def measure(settings: Settings) -> Report:
    """Simulate comparisons whose truth is known; compare real runs of the same cases, and of slower ones.

    Args:
        settings: how much.

    Returns:
        Shares of false alarms, and of slower cases that were found.

    Raises:
        NotMeasuredError: a run failed.
    """
    many, fewer = settings.comparisons, max(1, settings.comparisons // 10)
    quiet, moving, one, six = _shares(GATE_ROUNDS, many, fewer)
    same, slower = _real(settings)
    called = [each for each in same.cases if each.decided and each.verdict in {Verdict.SLOWER, Verdict.FASTER}]
    decided = sum(each.decided for each in same.cases)
    changed = [each for each in slower.cases if each.phase is Phase.STEADY and _slowed(each)]
    right = sum(each.verdict is Verdict.SLOWER for each in changed)
    rounds = f"{GATE_ROUNDS} rounds, 5 % noise, 60 cases"
    return Report(
        (
            at_most(f"simulated, {rounds}: comparisons of the same with an alarm", quiet, 1, " %"),
            at_most(f"simulated, {rounds}, runs 2 % apart: the same", moving, 1, " %"),
            at_least(f"simulated, {rounds}: slower by a tenth and found, one of 60", one, 95, " %"),
            at_least(f"simulated, {rounds}: slower by a tenth and found, six of 60", six, 95, " %"),
            at_most(f"measured: called different in two runs of the same, of {decided}", len(called), 0),
            at_least(
                f"measured: a tenth more work that is called slower, of {len(changed)}",
                100 * right / max(1, len(changed)),
                95,
                " %",
            ),
        ),
        (_default(many, fewer), *_simulated(many, fewer), *_told(same, slower)),
    )


def _shares(rounds: int, many: int, fewer: int) -> list[float]:
    """Simulate, in per cent: alarms, alarms of runs 2 % apart, a tenth that is found in one of 60 cases, and in six."""
    found = [alarms(Pair(rounds, between=between), many, 1) for between in (0.0, 0.02)]
    found += [detection(Pair(rounds, slowed=slowed), many if slowed == 1 else fewer, 2) for slowed in (1, 6)]
    return [100 * share for share in found]


def _default(many: int, fewer: int) -> str:
    quiet, moving, one, six = _shares(5, many, fewer)
    return (
        f"simulated, 5 rounds, 5 % noise, 60 cases: comparisons of the same with an alarm: {quiet:.1f} %, runs 2 % "
        f"apart {moving:.1f} %; slower by a tenth and found: one of 60 {one:.0f} %, six of 60 {six:.0f} %"
    )


def _simulated(many: int, fewer: int) -> list[str]:
    notes = []
    for rounds in (5, 10, GATE_ROUNDS):
        shares = ((noise, detection(Pair(rounds, noise / 100, slowed=6), fewer, 3)) for noise in (1, 2, 3, 5, 7, 10))
        words = ", ".join(f"{100 * share:.0f} % at {noise} %" for noise, share in shares)
        notes.append(f"simulated, {rounds} rounds: a tenth, six of 60, is found in {words} noise")
    # Everything has changed, and by nothing: no case is a control.
    changed = ((rounds, Pair(rounds, between=0.02, slowed=60, factor=1.0)) for rounds in (5, GATE_ROUNDS))
    words = ", ".join(f"{100 * alarms(pair, many, 6):.0f} % with {rounds} rounds" for rounds, pair in changed)
    notes.append(f"simulated, runs 2 % apart, no controls: comparisons of the same with an alarm: {words}")
    for noise in (unlike, heavy_tails, two_levels):
        what = str(noise.__doc__).partition(",")[0].removeprefix("Draw rounds ").partition(" whose")[0]
        shares = ((rounds, alarms(Pair(rounds), many, 4, noise)) for rounds in (5, GATE_ROUNDS))
        words = ", ".join(f"{100 * share:.1f} % with {rounds} rounds" for rounds, share in shares)
        notes.append(f"simulated, rounds {what} ({noise.__name__}): comparisons of the same with an alarm: {words}")
    return notes


def _real(settings: Settings) -> tuple[Comparison, Comparison]:
    """Run the same cases twice, then with a tenth more work in some: three runs of `jitmatrix bench`."""
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as folder:
        files = {more: _kernels(Path(folder, str(more)), settings, more) for more in (False, True)}
        results = str(Path(folder, "results"))
        for more in (False, False, True):
            _bench([str(file) for file in files[more]], settings, results)
        root = LocalRoot(Path(results))
        return compare(root, "latest~2", "latest~1"), compare(root, "latest~2", "latest")


def _kernels(folder: Path, settings: Settings, more: bool) -> list[Path]:
    """Write kernels into two files for each framework: one of those that are to be slowed, one of the others."""
    folder.mkdir()
    found = []
    for framework, (steps, more_steps, width) in _STEPS.items():
        half, slowed = settings.cases // 2, settings.slowed // 2
        for name, first, last in (("some", 0, slowed), ("others", slowed, half)):
            path = folder / f"{framework}_{name}.py"
            many = more_steps if more and name == "some" else steps
            path.write_text(_FILE.format(first=first, last=last, framework=framework, steps=many, width=width))
            found.append(path)
    return found


def _bench(files: list[str], settings: Settings, results: str) -> None:
    kernels = [word for file in files for word in ("--kernel", file)]
    modes = [word for mode in CHAINS for word in ("--framework", mode)]
    command = [sys.executable, "-m", "flows.cli", "bench", *kernels, *modes, *settings.options, "--results", results]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasuredError(f"jitmatrix bench failed: {' / '.join(done.stderr.strip().splitlines()[-2:])}")


def _slowed(case: Compared) -> bool:
    return any(change.name == "kernel's file" for change in case.changes)


def _told(same: Comparison, slower: Comparison) -> list[str]:
    notes = []
    for name, found in (("the same", same), ("a tenth more work", slower)):
        for phase in found.phases:
            cases = [each for each in found.cases if each.phase is phase and (found is same or _slowed(each))]
            if not cases:
                continue
            ratios = np.array([each.ratio.value for each in cases])
            words = {verdict: sum(each.verdict is verdict for each in cases) for verdict in Verdict}
            between = found.between[phase]
            known = "not known" if between.deviation is None else f"{100 * between.deviation:.1f} %"
            notes.append(
                f"measured, {name}, {phase}: ratio {np.median(ratios):.3f} (median), {ratios.min():.3f} to "
                f"{ratios.max():.3f}; {_counted(words)}; spread between runs {known}"
            )
    return notes


def _counted(words: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in words.items() if count)
