"""Rounds: every case in several fresh processes, spread over the run in shuffled order, never back to back."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernels.assignment import Assignment, Role
from kernels.case import Case
from kernels.floors import Roofline, attainable_ns, floor_ns
from kernels.frameworks import modes
from kernels.measurement import Measurement, Outcome, Reading, Status, merge
from kernels.phase import Phase
from kernels.shelf import Packed, Shelf
from kernels.timing import Sampling


@dataclass(frozen=True, slots=True)
class Turn:
    """One case in one round."""

    case: Case
    round: int


def turns(cases: Sequence[Case], sampling: Sampling) -> list[Turn]:
    """Order the turns of a run.

    Args:
        cases: what is measured.
        sampling: number of rounds, and the seed of their order.

    Returns:
        Every case once per round; each round has a shuffled order of its own, and no case follows itself where
        there is more than one.
    """
    rng = random.Random(sampling.seed)
    ordered: list[Turn] = []
    for number in range(sampling.rounds):
        shuffled = rng.sample(list(cases), len(cases))
        if ordered and len(shuffled) > 1 and shuffled[0] == ordered[-1].case:
            shuffled.append(shuffled.pop(0))
        ordered += [Turn(case, number) for case in shuffled]
    return ordered


class Runner(Protocol):
    """What runs an assignment in a fresh process."""

    def run(self, assignment: Assignment) -> Outcome:
        """Run it.

        Args:
            assignment: what to do.

        Returns:
            What the process left behind, however it ended.
        """
        ...


class Bench:
    """Takes the turns of a run, and merges what they leave behind.

    Turns of different cases may be taken by different threads at once, where the isolation allows it.

    Attributes:
        startup: framework to its startup reading; may be filled any time before ``measurement`` is asked for.
        roofline: of the backend that is measured, as ``kernels.roofline.measure`` gives it; the same.
    """

    def __init__(
        self,
        sampling: Sampling,
        isolation: Runner,
        startup: Mapping[str, Reading] | None = None,
        roofline: Roofline | None = None,
        *,
        keep_text: bool = False,
        shelf: Shelf | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            sampling: how every case is sampled.
            isolation: gives the processes: an Isolation, or Workers that share the turns.
            startup: framework to its startup reading.
            roofline: of the backend that is measured.
            keep_text: whether compiled programs' texts are kept, once per case.
            shelf: where outcomes wait until their case is done, and may wait from an earlier run; None keeps them in
                memory.
        """
        self._keep_text = keep_text
        self._sampling, self._isolation = sampling, isolation
        self.startup, self.roofline = dict(startup or {}), dict(roofline or {})
        self._shelf = Packed() if shelf is None else shelf
        self._ended: dict[Case, bool] = {}
        self._cut: dict[Case, list[Outcome]] = {}
        self._caches = Path(tempfile.mkdtemp(prefix="jitmatrix-cache-"))

    def close(self) -> None:
        """Remove the private compilation caches."""
        shutil.rmtree(self._caches, ignore_errors=True)

    def recall(self, turn: Turn, ended: bool) -> None:
        """Take over a turn that was taken before, by a run that did not come to its end; its outcomes are on the shelf.

        Args:
            turn: the turn.
            ended: whether its last process ended otherwise than ok.
        """
        self._ended[turn.case] = ended

    def take(self, turn: Turn) -> bool:
        """Take one turn: the processes of one case in one round.

        Args:
            turn: the turn.

        Returns:
            Whether the case is done: its last round is over, or it ended otherwise than ok.
        """
        if self.ended(turn.case):
            return False
        outcomes: list[Outcome] = []
        try:
            for role, cache in self._roles(turn):
                keep = self._keep_text and turn.round == 0 and role is Role.STEADY
                assignment = Assignment(turn.case, role, self._sampling, turn.round, cache, keep)
                outcomes.append(self._isolation.run(assignment))
                if outcomes[-1].status is not Status.OK:
                    break
        except BaseException:
            # An interruption: what was measured until then counts, and the turn is taken again if the run goes on.
            self._cut[turn.case] = outcomes
            raise
        self._shelf.put(turn, outcomes)
        self._ended[turn.case] = outcomes[-1].status is not Status.OK
        return self._ended[turn.case] or turn.round == self._sampling.rounds - 1

    def ended(self, case: Case) -> bool:
        """Tell whether a case ended before its last round: it is not tried again.

        Args:
            case: the case.

        Returns:
            True once one of its processes ended otherwise than ok.
        """
        return self._ended.get(case, False)

    def merged(self, case: Case) -> tuple[Measurement, list[Outcome]] | None:
        """Merge what has been measured of a case, and hold it no longer.

        Args:
            case: the case.

        Returns:
            The measurement of the rounds so far, and what its processes left behind, in order of time; None where
            nothing was measured, or it has been given already.
        """
        outcomes = self._shelf.take(case) + self._cut.pop(case, [])
        if not outcomes:
            return None
        floor, attainable = floor_ns(case, self.roofline), attainable_ns(case, self.roofline)
        return merge(case, outcomes, self.startup.get(case.framework), floor, attainable), outcomes

    def _roles(self, turn: Turn) -> list[tuple[Role, str | None]]:
        phases = modes()[f"{turn.case.framework}/{turn.case.mode}"].phases
        roles: list[tuple[Role, str | None]] = [(Role.STEADY, None)]
        if Phase.FIRST_CALL in phases:
            roles.append((Role.FIRST_CALL, None))
        if Phase.RELOAD in phases and turn.round == 0:
            # Twice against one private directory: the first visit fills it, the second is the reload.
            private = tempfile.mkdtemp(dir=self._caches)
            roles += [(Role.CACHE, private), (Role.CACHE, private)]
        return roles
