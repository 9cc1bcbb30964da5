"""What one process is to do, as it crosses the process boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from kernels.case import Case
from kernels.timing import Sampling


class Role(StrEnum):
    """What a process of a case is for; each phase needs a process that has done nothing to falsify it."""

    STEADY = "steady"
    FIRST_CALL = "first_call"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one process is to do: only JSON crosses the boundary.

    Attributes:
        case: the case.
        role: which of its phases.
        sampling: how.
        round: number of the round, from 0.
        cache_dir: directory of the persistent compilation cache; for ``Role.CACHE`` alone.
        keep_text: whether the compiled program's text is sent, not only its hash.
    """

    case: Case
    role: Role
    sampling: Sampling
    round: int = 0
    cache_dir: str | None = None
    keep_text: bool = False

    def to_json(self) -> dict[str, Any]:
        """Give the assignment as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Assignment:
        """Read back what ``to_json`` gave.

        Args:
            value: the mapping.

        Returns:
            The assignment.
        """
        return cls(
            **{
                **value,
                "case": Case.from_json(value["case"]),
                "role": Role(value["role"]),
                "sampling": Sampling(**value["sampling"]),
            }
        )
