"""A measurement in brief: what a run keeps of a case once its rows are stored, without the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.case import Case
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.statistics import Drawn, Estimate, headline

COMPARED = frozenset({Phase.STEADY, Phase.FIRST_CALL})
"""Phases that a case is compared by with others."""


@dataclass(frozen=True, slots=True)
class BriefTiming:
    """A timing without its samples.

    Attributes:
        median: of the rounds' medians, with its 95 % interval, nanoseconds per call.
        rounds: number of rounds.
        flags: reasons not to trust it, with their words.
        drawn: what comparisons need; None for a phase, or a case, that is in none.
    """

    median: Estimate
    rounds: int
    flags: Mapping[str, str]
    drawn: Drawn | None

    @property
    def median_ns(self) -> float:
        """Median of the rounds' medians, nanoseconds per call."""
        return self.median.value


@dataclass(frozen=True, slots=True)
class Brief:
    """A measurement without its samples; a few kilobytes, however long the case was sampled.

    Attributes:
        case: the case.
        status: how it ended.
        reason: why, in words, where the status is not ok.
        planned: the phases that the mode can separate, timed or not.
        timings: the phases that were timed.
        flags: reasons not to trust any of it, with their words.
        facts: ``output_tail``, the last of what the kernel printed, of a case that is not ok.
        trusted: whether the steady timing may be ranked.
    """

    case: Case
    status: Status
    reason: str | None
    planned: tuple[Phase, ...]
    timings: Mapping[Phase, BriefTiming]
    flags: Mapping[str, str]
    facts: Mapping[str, Any]
    trusted: bool

    @classmethod
    def of(cls, measurement: Measurement) -> Brief:
        """Keep of a measurement what tables, counts and artifacts show.

        Args:
            measurement: whole.

        Returns:
            It in brief.
        """
        tail = measurement.facts.get("output_tail")
        return cls(
            measurement.case,
            measurement.status,
            measurement.reason,
            measurement.planned,
            {
                phase: _brief(timing, measurement.trusted and phase in COMPARED)
                for phase, timing in measurement.timings.items()
            },
            dict(measurement.flags),
            {"output_tail": tail} if tail and measurement.status is not Status.OK else {},
            measurement.trusted,
        )


def _brief(timing: Timing, compared: bool) -> BriefTiming:
    rounds = timing.per_call()
    drawn = Drawn.of(rounds) if compared else None
    if drawn is not None:
        # Seven digits of a draw are more than a table shows, and a run keeps those of all of its cases.
        drawn = Drawn(drawn.value, drawn.draws.astype(np.float32))
    return BriefTiming(headline(rounds).median, len(timing.samples), dict(timing.flags), drawn)
