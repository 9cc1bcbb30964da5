"""Figure: what was measured of the benchmark, and the bound that it must reach; Report: the figures of one check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Bound(StrEnum):
    """Which side of its bound a figure must be on."""

    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        what: what was measured, in words.
        measured: its value.
        side: which side of the bound reaches it.
        bound: the bound.
        unit: of both, as it is printed behind them.
    """

    what: str
    measured: float
    side: Bound
    bound: float
    unit: str = ""

    @property
    def reached(self) -> bool:
        """Whether the measured value is on the right side; what is not a number is not."""
        return self.measured <= self.bound if self.side is Bound.AT_MOST else self.measured >= self.bound

    @property
    def line(self) -> str:
        """One line: verdict, what, measured, bound."""
        word = "reached" if self.reached else "MISSED "
        measured, bound = (f"{value:.4g}{self.unit}" for value in (self.measured, self.bound))
        return f"{word}  {self.what}: {measured} ({self.side} {bound})"


def at_most(what: str, measured: float, bound: float, unit: str = "") -> Figure:
    """Make a figure that must not exceed its bound.

    Args:
        what: what was measured.
        measured: its value.
        bound: the bound.
        unit: of both.

    Returns:
        The figure.
    """
    return Figure(what, measured, Bound.AT_MOST, bound, unit)


def at_least(what: str, measured: float, bound: float, unit: str = "") -> Figure:
    """Make a figure that must not fall below its bound.

    Args:
        what: what was measured.
        measured: its value.
        bound: the bound.
        unit: of both.

    Returns:
        The figure.
    """
    return Figure(what, measured, Bound.AT_LEAST, bound, unit)


@dataclass(frozen=True, slots=True)
class Report:
    """What one check found.

    Attributes:
        figures: the figures with their bounds.
        notes: what explains them and has no bound, one line each.
    """

    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        """Give the report as plain values; each figure says whether it was reached."""
        figures = [{**asdict(figure), "reached": figure.reached} for figure in self.figures]
        return {"figures": figures, "notes": list(self.notes)}
