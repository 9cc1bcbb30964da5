"""How the figures of a report look: colours, shapes and axes, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flows.report_changes import Row

Spec = dict[str, Any]

# By Okabe and Ito, "Color universal design" (2008): told apart by the colour-blind, on light and on dark.
COLOURS = {
    "numpy": "#6e6e6e",
    "numba": "#009e73",
    "jax": "#0072b2",
    "torch": "#d55e00",
    "tensorflow": "#c98a00",
    "python": "#b55d8c",
}
"""Framework to its colour on light."""

DARK = {
    "#6e6e6e": "#b3b3b3",
    "#009e73": "#1fc79a",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff8a3d",
    "#c98a00": "#f0c040",
    "#b55d8c": "#e39bc3",
    "#444444": "#bbbbbb",
}
"""Colour on light to the one that stands for it on dark."""

_OTHER = "#444444"
_SHAPES = {"eager": "circle", "plain": "circle", "function": "square", "script": "diamond", "lru_cache": "cross"}
_DECADE = "abs(round(log(datum.value) / LN10) - log(datum.value) / LN10) < 1e-6"
_TIME = (
    f"!({_DECADE}) ? '' : datum.value >= 1e9 ? datum.value / 1e9 + ' s'"
    " : datum.value >= 1e6 ? datum.value / 1e6 + ' ms' : datum.value >= 1e3 ? datum.value / 1e3 + ' µs'"
    " : datum.value + ' ns'"
)
_POWERS = "['', '', '', '', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹', '¹⁰', '¹¹', '¹²', '¹³', '¹⁴', '¹⁵', '¹⁶', '¹⁷', '¹⁸']"
COUNT = (
    f"!({_DECADE}) ? '' : datum.value < 1e4 ? format(datum.value, '~r')"
    f" : '10' + {_POWERS}[round(log(datum.value) / LN10)]"
)
"""Expression for the label of a count on a logarithmic axis: decades alone."""

GRID = {"condition": {"test": _DECADE, "value": 1}, "value": 0.3}
"""Opacity of the lines of a logarithmic axis: between the decades they are faint."""


def theme(dark: bool) -> Spec:
    """Give Vega's configuration.

    Args:
        dark: for a dark page rather than a light one.

    Returns:
        The configuration.
    """
    ink, faint, grid = ("#e4e6ea", "#a2a8b4", "#343a46") if dark else ("#1d2330", "#5a6272", "#dfe2e8")
    diverging = (
        ["#f0a35e", "#b5651d", "#5c4630", "#2b303a", "#2c4a63", "#2f7fb8", "#7cc4f4"]
        if dark
        else ["#a34700", "#d98538", "#f3cfa4", "#f4f4f2", "#b3d3ea", "#4a97cc", "#00558c"]
    )
    font = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
    return {
        "background": "transparent" if dark else "white",
        "font": font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": faint, "titleColor": faint, "gridColor": grid, "domainColor": grid, "tickColor": grid,
            "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11, "labelLimit": 150,
        },
        "header": {"labelColor": ink, "labelFontSize": 12, "labelFontWeight": 600, "titleColor": faint},
        "legend": {"labelColor": ink, "titleColor": faint, "labelFontSize": 11, "titleFontWeight": "normal"},
        "text": {"color": ink},
        "rule": {"color": faint},
        "range": {"diverging": diverging},
    }  # fmt: skip


def names(cases: Iterable[Row]) -> list[str]:
    """List frameworks with their modes.

    Args:
        cases: of the report.

    Returns:
        Such as ``jax/jit``; those of one framework side by side.
    """
    order = list(COLOURS)
    found = {(case["framework"], case["mode"], case["name"]) for case in cases}
    ranked = sorted(found, key=lambda each: (order.index(each[0]) if each[0] in order else len(order), each))
    return [name for *_, name in ranked]


def symbols(cases: Iterable[Row]) -> list[tuple[str, str, str]]:
    """Give what stands for each framework and mode.

    Args:
        cases: of the report.

    Returns:
        Name, colour on light, and shape, of each.
    """
    return [
        (name, COLOURS.get(name.partition("/")[0], _OTHER), _SHAPES.get(name.partition("/")[2], "triangle-up"))
        for name in names(cases)
    ]


def marks(cases: Sequence[Row]) -> Spec:
    """Encode framework and mode by colour and shape.

    Args:
        cases: of the report.

    Returns:
        The channels ``color`` and ``shape``.
    """
    chosen = symbols(cases)
    domain, colours, shapes = ([each[index] for each in chosen] for index in range(3))
    return {
        "color": {"field": "name", "scale": {"domain": domain, "range": colours}, "legend": {"title": None}},
        "shape": {"field": "name", "scale": {"domain": domain, "range": shapes}, "legend": {"title": None}},
    }


def kernel_rows(grid: bool = True) -> Spec:
    """Give each kernel a row.

    Args:
        grid: whether a line leads through it.

    Returns:
        The channel ``y``.
    """
    return {
        "field": "kernel",
        "type": "nominal",
        "axis": {"title": None, "domain": False, "ticks": False, "grid": grid},
    }


def point(size: int) -> Spec:
    """Describe the mark of a case.

    Args:
        size: its area in square pixels.

    Returns:
        The mark.
    """
    return {"type": "point", "filled": True, "size": size, "opacity": 0.8, "tooltip": {"content": "data"}}


def time_axis(field: str, title: str | None, domain: Sequence[float] | None = None, ticks: int = 8) -> Spec:
    """Put nanoseconds on a logarithmic axis that is labelled with units.

    Args:
        field: column of the times.
        title: of the axis; None for none.
        domain: ends of the axis, in nanoseconds; those of what is shown where it is None.
        ticks: about how many.

    Returns:
        The channel.
    """
    scale = {"type": "log", **({"domain": list(domain), "nice": False} if domain else {})}
    axis = {"title": title, "labelExpr": _TIME, "tickCount": ticks, "gridOpacity": GRID}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def valid(*fields: str) -> list[Mapping[str, str]]:
    """Keep rows that have numbers which a logarithmic axis can show.

    Args:
        fields: columns of the numbers.

    Returns:
        The transform.
    """
    return [{"filter": " && ".join(f"isValid(datum.{field}) && datum.{field} > 0" for field in fields)}]


def decades(values: Iterable[float]) -> tuple[float, float]:
    """Give the decades around values.

    Args:
        values: above 0.

    Returns:
        The powers of ten below and above; 1 and 10 where there are no values.
    """
    found = list(values)
    if not found:
        return 1.0, 10.0
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return 10.0**low, 10.0 ** max(high, low + 1)
