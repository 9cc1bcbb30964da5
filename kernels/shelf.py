"""Where what turns have left behind waits until its case is done: rounds are spread over the run, and runs are long."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kernels.case import Case
from kernels.measurement import Outcome

if TYPE_CHECKING:
    from kernels.schedule import Turn


class Shelf(Protocol):
    """Holds outcomes by case; a run puts them there turn by turn, and takes each case's away once."""

    def put(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        """Keep what a turn left behind.

        Args:
            turn: the turn, which is over.
            outcomes: of its processes, in order of time.
        """

    def take(self, case: Case) -> list[Outcome]:
        """Give what the turns of a case left behind, and forget it.

        Args:
            case: the case.

        Returns:
            Outcomes in order of time; none where none were put there.
        """


class Packed:
    """A shelf in memory, where an outcome takes a tenth of what it takes as objects."""

    def __init__(self) -> None:
        """Begin empty."""
        self._held: dict[Case, list[bytes]] = {}

    def put(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        """Keep what a turn left behind."""
        text = json.dumps([outcome.to_json() for outcome in outcomes])
        self._held.setdefault(turn.case, []).append(zlib.compress(text.encode(), level=1))

    def take(self, case: Case) -> list[Outcome]:
        """Give what the turns of a case left behind, and forget it."""
        packed = self._held.pop(case, [])
        return [Outcome.from_json(value) for turn in packed for value in json.loads(zlib.decompress(turn))]
