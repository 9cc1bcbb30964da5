"""Where the time of a run's processes went, added up as its cases finish."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from statistics import median

from kernels.measurement import Outcome
from kernels.progress import duration


class Profile:
    """Nanoseconds of every process of cases that were measured whole: three integers each, and one of each case."""

    def __init__(self) -> None:
        """Begin empty."""
        self._opened, self._called, self._harness, self._cases = array("q"), array("q"), array("q"), array("q")
        self._wall = 0

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add a case; one of whose processes some did not come to their end is left out.

        Args:
            outcomes: of its processes.
        """
        if not outcomes or not all("called_ns" in outcome.facts for outcome in outcomes):
            return
        self._opened.extend(int(outcome.facts["open_ns"]) for outcome in outcomes)
        self._called.extend(int(outcome.facts["called_ns"]) for outcome in outcomes)
        self._harness.extend(outcome.harness_ns for outcome in outcomes)
        self._cases.append(sum(outcome.harness_ns for outcome in outcomes))
        self._wall += sum(outcome.wall_ns for outcome in outcomes)

    def lines(self) -> Iterator[str]:
        """Write it out.

        Yields:
            Medians over processes of the framework's part, of the calls and of the harness, each with its share; none
            where no case was measured whole.
        """
        if not self._cases:
            return
        parts = {
            "device opened and first program": self._opened,
            "compiled and called": self._called,
            "harness": self._harness,
        }
        for name, values in parts.items():
            yield f"{name}: median {duration(median(values))} a process, {sum(values) / self._wall:.0%} of all"
        yield f"harness: median {duration(median(self._cases))} a case, over all of its processes"
        yield f"{len(self._harness)} processes, {duration(self._wall)} in all"
