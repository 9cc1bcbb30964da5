"""What a comparison holds: cases with their verdicts, what is not compared, and the means of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flows.changes import Change
from flows.decisions import Between
from flows.references import StoredRun
from flows.sides import Key
from kernels.phase import Phase
from kernels.statistics import Estimate, Verdict


@dataclass(frozen=True, slots=True)
class Compared:
    """One case and phase on both sides.

    Attributes:
        key: the case.
        phase: what was timed.
        kernel: the case's kernel.
        framework: and its mode, such as ``jax/jit``.
        backend: cpu, gpu or tpu.
        baseline_ns: headline of the baseline, nanoseconds per call.
        candidate_ns: headline of the candidate.
        ratio: candidate / baseline with its 95 % interval; above 1 is slower.
        changes: what else is not the same on both sides.
        decided: whether the phase is among those that are decided on.
        p_value: chance of so large a difference where there is none; None where no scatter is known.
        q_value: the rate of false discoveries at which it is called different.
        verdict: same, faster, slower or unclear.
    """

    key: Key
    phase: Phase
    kernel: str
    framework: str
    backend: str
    baseline_ns: float
    candidate_ns: float
    ratio: Estimate
    changes: tuple[Change, ...] = ()
    decided: bool = True
    p_value: float | None = None
    q_value: float | None = None
    verdict: Verdict = Verdict.UNCLEAR

    @property
    def case_id(self) -> str:
        """The case's name; cold inputs and workers stand behind it."""
        return str(self.key)


@dataclass(frozen=True, slots=True, order=True)
class Left:
    """A case, or a phase of one, that is not compared.

    Attributes:
        case_id: the case's name, with the phase behind it where it is one.
        reason: why, in words.
        broken: whether the candidate tried it and failed.
        phase: that is not compared; empty where the case is not.
    """

    case_id: str
    reason: str
    broken: bool = False
    phase: str = ""

    @property
    def case(self) -> str:
        """The case's name alone."""
        return self.case_id.removesuffix(f" {self.phase}")

    def __str__(self) -> str:
        return f"{self.case_id}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Mean:
    """Geometric mean of the ratios of a group of cases.

    Attributes:
        phase: of the cases.
        group: ``all``, or ``kernel dense``, or ``framework jax/jit``.
        cases: how many.
        ratio: the mean with its 95 % interval, which is that of the cases themselves: they are no sample of others.
    """

    phase: Phase
    group: str
    cases: int
    ratio: Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, compared.

    Attributes:
        baseline: runs of the baseline.
        candidate: runs of the candidate.
        smallest: the least relative difference that matters.
        phases: that are decided on.
        machines: where the sides ran on different ones: backend to their fingerprints in words.
        between: by phase, the spread between the two runs; nothing where a side has several, which show it themselves.
        cases: what is in both and may be trusted; slower ones first, then faster, unclear and same.
        lost: cases that were ok in the baseline and are not in the candidate.
        new: cases that are ok in the candidate and were not in the baseline.
        flagged: cases and phases that carry a flag on one of the sides.
        means: geometric means over groups.
        of: cases of the baseline of which a timing may be compared.
    """

    baseline: tuple[StoredRun, ...]
    candidate: tuple[StoredRun, ...]
    smallest: float
    phases: tuple[Phase, ...]
    machines: tuple[str, ...]
    between: Mapping[Phase, Between]
    cases: tuple[Compared, ...]
    lost: tuple[Left, ...]
    new: tuple[Left, ...]
    flagged: tuple[Left, ...]
    means: tuple[Mean, ...]
    of: int

    @property
    def regressions(self) -> tuple[Compared, ...]:
        """What is slower, of the phases that are decided on."""
        return tuple(each for each in self.cases if each.decided and each.verdict is Verdict.SLOWER)

    @property
    def broken(self) -> tuple[Left, ...]:
        """Cases that were ok in the baseline, and that the candidate tried and failed."""
        return tuple(each for each in self.lost if each.broken)

    @property
    def passed(self) -> bool:
        """Whether nothing is slower, and nothing that was ok fails now."""
        return not self.regressions and not self.broken

    @property
    def common(self) -> int:
        """Cases that are compared, in whatever phase."""
        return len({each.key for each in self.cases})

    def count(self, verdict: Verdict) -> int:
        """Count the cases and phases of a verdict, of the phases that are decided on."""
        return sum(each.decided and each.verdict is verdict for each in self.cases)

    def lines(self) -> list[str]:
        """Say in plain lines what was found: the sides, coverage, verdicts, what is slower or lost, and means.

        Returns:
            The lines; of what is same or unclear the counts alone.
        """
        from flows.comparison_text import lines

        return lines(self)
