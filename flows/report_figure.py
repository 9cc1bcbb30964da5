"""Figure: what a report shows at once, as a Vega-Lite specification over the columns of its cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.report_changes import Row
from flows.report_look import Spec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA_LITE = "6.4"
"""Version of Vega-Lite that the page carries and that pictures are drawn with."""

FIT = {"type": "fit-x", "contains": "padding"}
"""How a figure of one row for each kernel takes the width of its page."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        key: names it, and its file.
        title: what it shows, in a few words.
        caption: how to read it.
        needs: columns that a case must have to be in it.
        spec: the specification, over the data ``cases`` or ``history``.
        panels: whether it shows one panel (a dtype, most often) at a time, by the parameter ``panel``.
        column: width of a column in pixels where it has several; 0 where it fills the page.
        least: width in pixels below which it cannot be read: a narrower page scrolls it.
    """

    key: str
    title: str
    caption: str
    needs: tuple[str, ...]
    spec: Spec
    panels: bool = False
    column: int = 0
    least: int = 0


def has(case: Row, needs: Sequence[str]) -> bool:
    """Tell whether a figure can show a case.

    Args:
        case: of the report.
        needs: columns of the figure.

    Returns:
        Whether each of them has a number above 0.
    """
    return all((case[name] or 0) > 0 for name in needs)
