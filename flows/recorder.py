"""What a run records while it goes: its journal on disk, and memory where that cannot be written any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flows.journal import Journal
from kernels.assignment import Role
from kernels.case import Case
from kernels.measurement import Outcome, Status
from kernels.run import Run
from kernels.schedule import Turn
from kernels.shelf import Packed


class Recorder:
    """The shelf of a run's outcomes, of which none is in memory until its case is done; a full disk does not end it."""

    def __init__(self, journal: Journal, note: Callable[[str], None]) -> None:
        """Prepare.

        Args:
            journal: of the run, open.
            note: is told once when it cannot be written.
        """
        self._journal, self._note = journal, note
        self._described = set(journal.story.rooflines)
        self._spare = Packed()
        self._told = False

    def put(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        """Keep what a turn left behind."""
        if not self._kept(lambda: self._journal.turn(turn, outcomes)):
            self._spare.put(turn, outcomes)

    def take(self, case: Case) -> list[Outcome]:
        """Give what the turns of a case left behind, and forget it."""
        try:
            kept = self._journal.take(case)
        except OSError as error:
            reason = f"its rounds cannot be read back from {self._journal.path} ({error.strerror})"
            return [Outcome(Role.STEADY, Status.FAILED, reason)]
        return [outcome for outcomes in kept.values() for outcome in outcomes] + self._spare.take(case)

    def machine(self, engine: Run) -> None:
        """Keep what was measured of the machine, once per backend.

        Args:
            engine: measures.
        """
        for backend in engine.startups.keys() - self._described:
            rooflines, startups = engine.rooflines[backend], engine.startups[backend]
            self._kept(lambda b=backend, r=rooflines, s=startups: self._journal.machine(b, r, s))  # type: ignore[misc]
            self._described.add(backend)

    def _kept(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError as error:
            if not self._told:
                self._note(f"{self._journal.path} cannot be written ({error.strerror}): a killed run would lose more")
                self._told = True
            return False
        return True
