"""The figures of a report, as Vega-Lite specifications over the columns of its cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.report_data import Row

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA_LITE = "6.4"
"""Version of Vega-Lite that the page carries and that pictures are drawn with."""

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
_FIT = {"type": "fit-x", "contains": "padding"}
_DECADE = "abs(round(log(datum.value) / LN10) - log(datum.value) / LN10) < 1e-6"
_TIME = (
    f"!({_DECADE}) ? '' : datum.value >= 1e9 ? datum.value / 1e9 + ' s'"
    " : datum.value >= 1e6 ? datum.value / 1e6 + ' ms' : datum.value >= 1e3 ? datum.value / 1e3 + ' µs'"
    " : datum.value + ' ns'"
)
_COUNT = f"!({_DECADE}) ? '' : datum.value >= 1e6 ? format(datum.value, '~e') : format(datum.value, ',')"
_TIMES = "(datum.value < 0 ? '1/' : '') + format(pow(2, abs(datum.value)), '~g') + '\u00d7'"


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
    """

    key: str
    title: str
    caption: str
    needs: tuple[str, ...]
    spec: Spec
    panels: bool = False
    column: int = 0


def figures(cases: Sequence[Row], history: Sequence[Row], baseline: str) -> list[Figure]:
    """Specify the figures.

    Args:
        cases: of the report.
        history: of the report.
        baseline: of its speed-ups.

    Returns:
        The figures that there is something for, in the order of the page.
    """
    look = _look(cases)
    several = len({row["run_id"] for row in history}) > 1
    drawn = [_compile(cases, look), _first_call(cases, look), _break_even(look), _scaling(look), _heat(baseline)]
    drawn += [_spread(look), *([_history(look)] if several else [])]
    return [figure for figure in drawn if any(_has(case, figure.needs) for case in cases)]


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


def _look(cases: Sequence[Row]) -> Spec:
    chosen = symbols(cases)
    domain, colours, shapes = ([each[index] for each in chosen] for index in range(3))
    return {
        "color": {"field": "name", "scale": {"domain": domain, "range": colours}, "legend": {"title": None}},
        "shape": {"field": "name", "scale": {"domain": domain, "range": shapes}, "legend": {"title": None}},
    }


def _compile(cases: Sequence[Row], look: Spec) -> Figure:
    needs = ("compile_ns", "steady_ns")
    return Figure(
        "compile",
        "Compile time against run time",
        "Each mark is a case: the backend's compilation alone, cold, over one steady call. On a dashed line "
        "compiling takes as long as so many calls. Frameworks that cannot separate compiling are not here.",
        needs,
        _against(cases, look, x="steady_ns", x_title="one steady call", y="compile_ns", y_title="compilation"),
    )


def _first_call(cases: Sequence[Row], look: Spec) -> Figure:
    return Figure(
        "first-call",
        "First call against steady calls",
        "Each mark is a case: the first call in a new process over one steady call. On the lowest dashed line the "
        "first call costs no more than the others.",
        ("first_call_ns", "steady_ns"),
        _against(cases, look, x="steady_ns", x_title="one steady call", y="first_call_ns", y_title="first call"),
    )


def _against(
    cases: Sequence[Row],
    look: Spec,
    *,
    x: str,
    x_title: str,
    y: str,
    y_title: str,
    lines: Sequence[float] = (1, 1e3, 1e6),
) -> Spec:
    """Set two times of a case against each other, on axes that filters do not move."""
    there = [case for case in cases if _has(case, (x, y))]
    (left, right), (low, high) = (_bounds(case[name] for case in there) for name in (x, y))
    dashes = []
    for factor in lines:
        begin, end = max(left, low / factor), min(right, high / factor)
        if begin < end:
            word = f"{factor:,.0f} call{'s' * (factor > 1)}".replace(",", " ")
            dashes += [{"line": word, "x": at, "y": at * factor, "end": at == end} for at in (begin, end)]
    axes = {
        "x": _time(x, x_title, [left, right]),
        "y": _time(y, y_title, [low, high]),
    }
    at = {"x": {**axes["x"], "field": "x"}, "y": {**axes["y"], "field": "y"}}
    return {
        "$schema": SCHEMA, "width": "container", "height": 380,
        "layer": [
            {"data": {"values": dashes},
             "mark": {"type": "line", "strokeDash": [4, 4], "color": "#8a919e", "strokeWidth": 1},
             "encoding": {**at, "detail": {"field": "line"}}},
            {"data": {"values": dashes}, "transform": [{"filter": "datum.end"}],
             "mark": {"type": "text", "align": "right", "dx": -4, "dy": -7, "color": "#8a919e", "fontSize": 10},
             "encoding": {**at, "text": {"field": "line"}}},
            {"data": {"name": "cases"}, "transform": _valid(x, y), "mark": _point(55),
             "encoding": {**axes, **look}},
        ],
    }  # fmt: skip


def _break_even(look: Spec) -> Figure:
    calls = {
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {"title": "calls until compiling has paid", "labelExpr": _COUNT, "tickCount": 8, "orient": "top"},
    }
    return Figure(
        "break-even",
        "Break-even: calls until compiling has paid",
        "The first call's extra cost over what each later call saves against the framework's own eager mode (NumPy "
        "where it has none), with what the 95 % intervals allow. Cases in which no number of calls pays are not "
        "here; the table says never.",
        ("calls",),
        {
            "$schema": SCHEMA, "width": "container", "autosize": _FIT, "height": {"step": 17},
            "data": {"name": "cases"},
            "transform": _valid("calls"),
            "layer": [
                {"mark": {"type": "rule", "opacity": 0.45, "tooltip": {"content": "data"}},
                 "encoding": {"x": {"field": "calls_least", **calls}, "x2": {"field": "calls_most"},
                              "color": look["color"]}},
                {"mark": _point(45), "encoding": {"x": {"field": "calls", **calls}, **look}},
            ],
            "encoding": {"y": _kernels()},
        },
    )  # fmt: skip


def _scaling(look: Spec) -> Figure:
    work = {
        "field": "work_operations",
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {"title": None, "labelExpr": _COUNT, "tickCount": 4},
    }
    floor = {"type": "line", "color": "#8a919e", "strokeDash": [4, 3], "strokeWidth": 1.5}
    return Figure(
        "scaling",
        "Scaling over sizes",
        "Steady time of a call over the operations that a kernel declares as least, both on logarithmic axes. The "
        "dashed line is the roofline: what this machine's measured bandwidth and arithmetic allow.",
        ("steady_ns", "work_operations"),
        {
            "$schema": SCHEMA, "data": {"name": "cases"},
            "params": [{"name": "panel", "value": ""}],
            "transform": [
                *_valid("steady_ns", "work_operations"),
                {"filter": "datum.panel == panel"},
                {"calculate": "datum.roofline_share > 0 ? datum.roofline_share * datum.steady_ns : null",
                 "as": "attainable"},
            ],
            "facet": {"field": "kernel", "type": "nominal", "title": None}, "columns": 4,
            "spec": {
                "width": 200, "height": 150,
                "layer": [
                    {"mark": floor,
                     "encoding": {"x": work, "y": _time("attainable", None, ticks=4)}},
                    {"mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8},
                     "encoding": {"x": work, "y": _time("steady_ns", None, ticks=4), "color": look["color"]}},
                    {"mark": _point(35), "encoding": {"x": work, "y": _time("steady_ns", None, ticks=4), **look}},
                ],
            },
            "resolve": {"scale": {"x": "independent", "y": "independent"}},
        },
        panels=True,
        column=255,
    )  # fmt: skip


def _heat(baseline: str) -> Figure:
    log = "min(5, max(-5, log(datum.times) / LN2))"
    label = (
        "datum.times >= 99.95 ? format(datum.times, ',.0f') : datum.times >= 9.995 ? format(datum.times, '.0f')"
        " : format(datum.times, '.2~r')"
    )
    white = {"condition": {"test": "abs(datum.log) > 2.6", "value": "#ffffff"}, "value": "#1d2330"}
    return Figure(
        "speed-up",
        f"Times faster than {baseline}, at equal dtype",
        f"Blue is faster than {baseline}, orange slower; each kernel at its largest size that is shown. A blank cell "
        "was not measured, failed, or is flagged: it is in no comparison.",
        ("times",),
        {
            "$schema": SCHEMA, "width": "container", "autosize": _FIT, "height": {"step": 21},
            "data": {"name": "cases"},
            "params": [{"name": "panel", "value": ""}],
            "transform": [*_valid("times"), {"filter": "datum.largest && datum.panel == panel"},
                          {"calculate": log, "as": "log"}, {"calculate": label, "as": "label"}],
            "encoding": {
                "x": {"field": "name", "type": "nominal", "axis": {"title": None, "orient": "top", "labelAngle": -40,
                      "domain": False, "ticks": False}},
                "y": _kernels(),
            },
            "layer": [
                {"mark": {"type": "rect", "cornerRadius": 2, "tooltip": {"content": "data"}},
                 "encoding": {"color": {"field": "log", "type": "quantitative",
                     "scale": {"domain": [-5, 5], "range": "diverging"},
                     "legend": {"title": None, "labelExpr": _TIMES, "values": [-5, -3, 0, 3, 5]}}}},
                {"mark": {"type": "text", "fontSize": 10, "tooltip": {"content": "data"}},
                 "encoding": {"text": {"field": "label"}, "color": white}},
            ],
        },
        panels=True,
    )  # fmt: skip


def _spread(look: Spec) -> Figure:
    return Figure(
        "spread",
        "Spread between processes",
        "Largest over smallest median of a case's processes, steady calls: at 1 they agree. Pale marks are flagged "
        "and in no ranking.",
        ("spread",),
        {
            "$schema": SCHEMA, "width": "container", "autosize": _FIT, "height": {"step": 17},
            "data": {"name": "cases"},
            "transform": _valid("spread"),
            "mark": _point(40),
            "encoding": {
                "y": _kernels(),
                "x": {"field": "spread", "type": "quantitative", "scale": {"type": "log"},
                      "axis": {"title": "slowest over fastest process", "orient": "top", "format": "~g",
                               "tickCount": 8}},
                "opacity": {"condition": {"test": "datum.spread_note != ''", "value": 0.25}, "value": 0.8},
                **look,
            },
        },
    )  # fmt: skip


def _history(look: Spec) -> Figure:
    when = {"field": "at", "type": "temporal", "axis": {"title": None, "tickCount": 4, "labelOverlap": True}}
    encoding = {"x": when, "y": _time("median_ns", None, ticks=4), "detail": {"field": "id"}}
    return Figure(
        "history",
        "History",
        "Steady time of a call in every complete run of these results, each kernel at its largest size that is "
        "shown. Flagged timings are left out.",
        ("steady_ns",),
        {
            "$schema": SCHEMA, "data": {"name": "history"},
            "params": [{"name": "panel", "value": ""}],
            "transform": [{"filter": "datum.largest && datum.panel == panel"}],
            "facet": {"field": "kernel", "type": "nominal", "title": None}, "columns": 4,
            "spec": {
                "width": 200, "height": 130,
                "layer": [
                    {"mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8},
                     "encoding": {**encoding, "color": look["color"]}},
                    {"mark": _point(30), "encoding": {**encoding, **look}},
                ],
            },
            "resolve": {"scale": {"y": "independent"}},
        },
        panels=True,
        column=255,
    )  # fmt: skip


def _kernels() -> Spec:
    return {
        "field": "kernel",
        "type": "nominal",
        "axis": {"title": None, "domain": False, "ticks": False, "grid": True},
    }


def _point(size: int) -> Spec:
    return {"type": "point", "filled": True, "size": size, "opacity": 0.8, "tooltip": {"content": "data"}}


def _time(field: str, title: str | None, domain: list[float] | None = None, ticks: int = 8) -> Spec:
    scale = {"type": "log", **({"domain": domain, "nice": False} if domain else {})}
    axis = {"title": title, "labelExpr": _TIME, "tickCount": ticks}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _valid(*fields: str) -> list[Mapping[str, str]]:
    return [{"filter": " && ".join(f"isValid(datum.{field}) && datum.{field} > 0" for field in fields)}]


def _has(case: Row, needs: Sequence[str]) -> bool:
    return all((case[name] or 0) > 0 for name in needs)


def _bounds(values: Iterable[float]) -> tuple[float, float]:
    """Give the decades around values; one where there are none."""
    found = list(values)
    if not found:
        return 1.0, 10.0
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return 10.0**low, 10.0 ** max(high, low + 1)
