"""Measurement: all that was found of one case, merged over its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from kernels import guards
from kernels.assignment import Role
from kernels.case import Backend, Case, Skip
from kernels.floors import share
from kernels.frameworks import frameworks
from kernels.guards import Finding, Flag
from kernels.phase import REPEATED, Phase
from kernels.statistics import median as median_of_medians
from kernels.statistics import per_call

TAIL = 4096
"""Characters of what a kernel printed that stand in its row."""


class Status(StrEnum):
    """How a case ended."""

    OK = "ok"
    WRONG = "wrong"
    FAILED = "failed"
    TIMEOUT = "timeout"
    KILLED = "killed"
    UNAVAILABLE = "unavailable"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Reading:
    """One phase as one process timed it.

    Attributes:
        phase: what was timed.
        samples: total nanoseconds of each sample, in order.
        inner_calls: calls in each sample.
        events: the framework's own counts while it ran: traces, lowerings, compiles, cache_hits, cache_misses.
        event_ns: nanoseconds that the framework itself reports for the phase; None where it reports none.
        parts: nanoseconds of what the phase consists of, where that is known.
    """

    phase: Phase
    samples: tuple[int, ...]
    inner_calls: int
    events: Mapping[str, int]
    event_ns: int | None = None
    parts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Reading:
        """Read the record that a case's process sent.

        Args:
            record: of kind ``reading``.

        Returns:
            The reading.
        """
        phase, events = Phase(record["phase"]), dict(record["events"])
        seconds = events.pop("seconds")
        own = {Phase.TRACE: "traces", Phase.LOWER: "lowerings", Phase.COMPILE: "compiles"}.get(phase)
        event_ns = round(seconds[own] * 1e9) if own in seconds else None
        return cls(phase, tuple(record["samples"]), record["inner_calls"], events, event_ns)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reading:
        """Read back what ``asdict`` gave.

        Args:
            value: the mapping.

        Returns:
            The reading.
        """
        return cls(**{**value, "phase": Phase(value["phase"]), "samples": tuple(value["samples"])})


@dataclass(slots=True)
class Outcome:
    """What one process left behind, however it ended.

    Attributes:
        role: what it was for.
        status: how it ended.
        reason: why, in words, where the status is not ok.
        readings: what it had timed until then.
        findings: flags that its guards raised.
        facts: what it told of itself.
        text: the compiled program, where it was asked for.
        output: what the kernel printed, or the last of it.
        peak_nbytes: peak resident size.
        wall_ns: from the request to the end.
    """

    role: Role
    status: Status = Status.FAILED
    reason: str | None = None
    readings: list[Reading] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    output: str = ""
    peak_nbytes: int | None = None
    wall_ns: int = 0

    def to_json(self) -> dict[str, Any]:
        """Give the outcome as plain values, to be kept until its case is done."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Outcome:
        """Read back what ``to_json`` gave.

        Args:
            value: the mapping.

        Returns:
            The outcome.
        """
        readings = [Reading.from_json(reading) for reading in value["readings"]]
        findings = [
            Finding(Flag(found["flag"]), found["reason"], tuple(map(Phase, found["phases"])))
            for found in value["findings"]
        ]
        named = {"role": Role(value["role"]), "status": Status(value["status"])}
        return cls(**{**value, **named, "readings": readings, "findings": findings})

    @property
    def harness_ns(self) -> int:
        """Nanoseconds that are the harness's own: not the framework's opening, nor its compilations and calls."""
        return self.wall_ns - int(self.facts.get("open_ns", 0)) - int(self.facts.get("called_ns", 0))


@dataclass(frozen=True, slots=True)
class Timing:
    """One phase of a case over all its rounds.

    Attributes:
        phase: what was timed.
        samples: for each round, total nanoseconds of each sample, in order and unfiltered.
        inner_calls: for each round, calls in each sample.
        events: the framework's counts, summed over the rounds.
        event_ns: for each round, nanoseconds by the framework's own account; None where it gives none.
        flags: reasons not to trust it, with their words.
    """

    phase: Phase
    samples: tuple[tuple[int, ...], ...]
    inner_calls: tuple[int, ...]
    events: Mapping[str, int]
    event_ns: tuple[int, ...] | None
    flags: Mapping[str, str]

    def per_call(self) -> list[list[float]]:
        """Give nanoseconds per call: rounds of samples."""
        return per_call(self.samples, self.inner_calls)

    @property
    def median_ns(self) -> float:
        """The headline without its interval: median of the rounds' medians, nanoseconds per call."""
        return median_of_medians(self.per_call())


@dataclass(frozen=True, slots=True)
class Measurement:
    """All of one case.

    Attributes:
        case: the case.
        status: how it ended; the worst of its processes decides.
        reason: why, in words, where the status is not ok.
        planned: the phases that the mode can separate, timed or not.
        timings: the phases that were timed.
        flags: reasons not to trust any of it, with their words.
        facts: what its processes told: output dtype, program hash and estimates, warm-up calls, peak memory; and
            ``roofline_share`` of the steady timing, as ``kernels.floors.share`` defines it.
        rounds: rounds that were measured.
    """

    case: Case
    status: Status
    reason: str | None
    planned: tuple[Phase, ...]
    timings: Mapping[Phase, Timing]
    flags: Mapping[str, str]
    facts: Mapping[str, Any]
    rounds: int

    @property
    def trusted(self) -> bool:
        """Whether the steady timing may be ranked: ok, there, and free of flags."""
        steady = self.timings.get(Phase.STEADY)
        return self.status is Status.OK and steady is not None and not self.flags and not steady.flags

    def to_json(self) -> dict[str, Any]:
        """Give the measurement as plain values: one JSON line of ``python -m kernels``."""
        value = asdict(self)
        value["case"] = {"id": self.case.id, **self.case.to_json()}
        value["timings"] = {phase.value: asdict(timing) for phase, timing in self.timings.items()}
        return value

    @classmethod
    def of_skip(cls, skip: Skip) -> Measurement:
        """Make the row of a cell that is not measured.

        Args:
            skip: the cell and its reason.

        Returns:
            A measurement without timings.
        """
        return cls(skip.case, Status.SKIPPED, skip.reason, _planned(skip.case), {}, {}, {}, 0)


def merge(
    case: Case,
    outcomes: list[Outcome],
    startup: Reading | None = None,
    floor_ns: float | None = None,
    attainable_ns: float | None = None,
) -> Measurement:
    """Merge what the processes of a case left behind.

    Args:
        case: the case.
        outcomes: of its processes, in order of time; at least one.
        startup: the framework's startup, timed once for the run.
        floor_ns: nanoseconds below which a steady call cannot be true, by the machine's roofline.
        attainable_ns: nanoseconds of a steady call on the roofline.

    Returns:
        The measurement.
    """
    bad = next((outcome for outcome in outcomes if outcome.status is not Status.OK), None)
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    readings: dict[Phase, list[Reading]] = {}
    for reading in ([startup] if startup else []) + [reading for outcome in outcomes for reading in outcome.readings]:
        if reading.phase is not Phase.RELOAD or reading.events["cache_hits"] > 0:
            readings.setdefault(reading.phase, []).append(reading)
    facts = {key: value for outcome in outcomes for key, value in outcome.facts.items()}
    facts |= {f"startup_{part}_ns": ns for part, ns in (startup.parts if startup else {}).items()}
    findings += _judge(case, readings, outcomes, floor_ns)
    if attainable_ns is not None and Phase.STEADY in readings:
        medians = [median(reading.samples) / reading.inner_calls for reading in readings[Phase.STEADY]]
        facts["roofline_share"] = share(median(medians), attainable_ns)
    peaks = [outcome.peak_nbytes for outcome in outcomes if outcome.peak_nbytes]
    tails = [outcome.output[-TAIL:] for outcome in outcomes if outcome.output]
    facts |= {"peak_nbytes": max(peaks, default=None), "output_tail": tails[-1] if tails else None}
    return Measurement(
        case=case,
        status=bad.status if bad else Status.OK,
        reason=bad.reason if bad else None,
        planned=_planned(case),
        timings={phase: _timing(phase, readings[phase], findings) for phase in Phase if phase in readings},
        flags={finding.flag.value: finding.reason for finding in findings if not finding.phases},
        facts=facts,
        rounds=sum(outcome.role is Role.STEADY for outcome in outcomes),
    )


def _planned(case: Case) -> tuple[Phase, ...]:
    return frameworks()[case.framework].phases(case.mode, case.backend)


def _judge(
    case: Case, readings: Mapping[Phase, list[Reading]], outcomes: list[Outcome], floor: float | None
) -> list[Finding]:
    found: list[Finding] = []
    for phase in REPEATED & readings.keys():
        pooled = [ns / reading.inner_calls for reading in readings[phase] for ns in reading.samples]
        found += guards.spread(pooled, phase)
        if phase is Phase.STEADY and floor is not None:
            found += guards.roofline(sorted(pooled)[len(pooled) // 2], floor)
    shares = [outcome.facts["cpu_share"] for outcome in outcomes if "cpu_share" in outcome.facts]
    stolen = [outcome.facts["steal_share"] for outcome in outcomes if outcome.facts.get("steal_share") is not None]
    if shares and case.backend is Backend.CPU:
        found += guards.contended(sorted(shares)[len(shares) // 2], max(stolen, default=None))
    return found


def _timing(phase: Phase, readings: list[Reading], findings: list[Finding]) -> Timing:
    events: dict[str, int] = {}
    for reading in readings:
        for name, count in reading.events.items():
            events[name] = events.get(name, 0) + count
    own = tuple(reading.event_ns for reading in readings if reading.event_ns is not None)
    return Timing(
        phase=phase,
        samples=tuple(reading.samples for reading in readings),
        inner_calls=tuple(reading.inner_calls for reading in readings),
        events=events,
        event_ns=own if len(own) == len(readings) else None,
        flags={finding.flag.value: finding.reason for finding in findings if phase in finding.phases},
    )
