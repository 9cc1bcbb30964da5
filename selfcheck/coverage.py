"""Intervals: does the 95 % interval of a headline hold the truth as often as it must?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kernels.statistics import Rounds, headline
from kernels.timing import Sampling
from kernels.workers import Workers
from selfcheck.figure import Report, at_least
from selfcheck.interleaved import interleaved, steady
from selfcheck.own import case


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        repeats: measurements of one case, interleaved in one run.
        simulated: measurements drawn with the variances that these showed.
        sampling: of each repeat.
    """

    repeats: int = 100
    simulated: int = 2000
    sampling: Sampling = field(default_factory=lambda: Sampling(budget_s=0.1, min_sample_ms=2.0))


QUICK = Settings(3, 20, Sampling(rounds=2, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0))


def measure(settings: Settings) -> Report:
    """Measure one small kernel over and over, and draw many more such measurements.

    Args:
        settings: how much.

    Returns:
        The shares of intervals that hold the grand median, really measured and simulated.
    """
    tiny = case("sincos", "numpy/eager", "S")
    with Workers() as workers:
        measured = [steady(o) for o in interleaved(workers, [tiny] * settings.repeats, settings.sampling)]
    medians = np.array([[np.median(round_) for round_ in rounds] for rounds in measured])
    grand = float(np.median(medians))
    between = float(np.std(np.log(medians)))
    within = float(np.median([np.std(np.log(round_)) for rounds in measured for round_ in rounds]))
    rng = np.random.default_rng(settings.sampling.seed)
    samples = int(np.median([len(round_) for rounds in measured for round_ in rounds]))
    shape = (settings.simulated, settings.sampling.rounds, samples)
    centres = rng.normal(0.0, between, (*shape[:2], 1))
    drawn = np.exp(centres + rng.normal(0.0, within, shape))
    return Report(
        (
            at_least(
                f"intervals that hold the grand median, of {len(measured)} measured", _held(measured, grand), 90, " %"
            ),
            at_least(f"intervals that hold the true median, of {len(drawn)} simulated", _held(drawn, 1.0), 90, " %"),
        ),
        (
            f"{tiny.id}: grand median {grand / 1e3:.2f} us, standard deviation between rounds {100 * between:.1f} %, "
            f"within {100 * within:.1f} %, {samples} samples a round",
        ),
    )


def _held(repeats: Iterable[Rounds], truth: float) -> float:
    intervals = [headline(rounds).median for rounds in repeats]
    return 100 * sum(interval.low <= truth <= interval.high for interval in intervals) / len(intervals)
