"""A/A and A/B: identical cases must not be called different, and a tenth more work must be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.statistics import Rounds, Verdict, verdict
from kernels.timing import Sampling
from kernels.workers import Workers
from selfcheck.figure import Report, at_least, at_most
from selfcheck.interleaved import interleaved, steady
from selfcheck.own import CHAINS, chain


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        pairs: pairs of identical cases for each mode of ``CHAINS``.
        slower: of these, how many baselines are also compared with a kernel of a tenth more work.
        sampling: of each case; rounds are the default, the budget is a quarter of it to keep the run short.
    """

    pairs: int = 50
    slower: int = 10
    sampling: Sampling = field(default_factory=lambda: Sampling(budget_s=0.25))


QUICK = Settings(2, 1, Sampling(rounds=2, budget_s=0.01, min_sample_ms=0.5, warmup_ms=1.0))


def measure(settings: Settings) -> Report:
    """Compare identical and different cases, all measured in one run, their rounds interleaved.

    Args:
        settings: how much.

    Returns:
        The shares called different, and what a test over pooled samples calls of the same data.
    """
    a = [chain(mode) for mode in CHAINS for _ in range(settings.pairs)]
    more = [chain(mode, more=True) for mode in CHAINS for _ in range(settings.slower)]
    with Workers() as workers:
        timings = [steady(outcomes) for outcomes in interleaved(workers, [*a, *a, *more], settings.sampling)]
    first, second, third = timings[: len(a)], timings[len(a) : 2 * len(a)], timings[2 * len(a) :]
    firsts = [first[i * settings.pairs + j] for i in range(len(CHAINS)) for j in range(settings.slower)]
    identical = list(zip(first, second, strict=True))
    different = list(zip(firsts, third, strict=True))
    called = [verdict(*pair)[1] for pair in identical]
    found = [verdict(*pair) for pair in different]
    wrong = sum(word in (Verdict.FASTER, Verdict.SLOWER) for word in called)
    slower = sum(word is Verdict.SLOWER for _, word in found)
    ratios = sorted(ratio.value for ratio, _ in found)
    scatter = np.median([np.std([np.log(np.median(round_)) for round_ in rounds], ddof=1) for rounds in timings])
    pooled = [sum(_mann_whitney(*pair) for pair in pairs) for pairs in (identical, different)]
    return Report(
        (
            at_most(f"identical pairs called different, of {len(called)}", 100 * wrong / len(called), 1, " %"),
            at_least(
                f"pairs with a tenth more work called slower, of {len(found)}", 100 * slower / len(found), 90, " %"
            ),
        ),
        (
            f"identical pairs: {called.count(Verdict.SAME)} same, {called.count(Verdict.UNCLEAR)} unclear, {wrong} not",
            f"a tenth more work: ratio {ratios[len(ratios) // 2]:.3f} (median), {ratios[0]:.3f} to {ratios[-1]:.3f}",
            f"standard deviation of a case's round medians: {100 * scatter:.1f} % (median over cases)",
            f"the trap, Mann-Whitney over pooled samples: different in {pooled[0]} of {len(called)} identical pairs",
        ),
    )


def _mann_whitney(baseline: Rounds, candidate: Rounds) -> bool:
    """Tell whether the test that takes every sample as independent calls a pair different."""
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]

    return bool(mannwhitneyu(_pooled(baseline), _pooled(candidate)).pvalue < 0.05)


def _pooled(rounds: Rounds) -> Sequence[float]:
    return [ns for round_ in rounds for ns in round_]
