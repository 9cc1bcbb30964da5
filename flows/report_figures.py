"""The figures of a report, as Vega-Lite specifications over the columns of its cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.report_changes import Row
from flows.report_look import COLOURS, COUNT, GRID, Spec, decades, kernel_rows, marks, point, time_axis, valid

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA_LITE = "6.4"
"""Version of Vega-Lite that the page carries and that pictures are drawn with."""

_FIT = {"type": "fit-x", "contains": "padding"}
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


def figures(cases: Sequence[Row], history: Sequence[Row], baseline: str) -> list[Figure]:
    """Specify the figures.

    Args:
        cases: of the report.
        history: of the report.
        baseline: of its speed-ups.

    Returns:
        The figures that there is something for, in the order of the page.
    """
    look = marks(cases)
    several = len({row["run_id"] for row in history}) > 1
    drawn = [_compile(cases, look), _first_call(cases, look), _break_even(look), _scaling(look), _heat(baseline, look)]
    drawn += [_spread(look), *([_history(look)] if several else [])]
    return [figure for figure in drawn if any(has(case, figure.needs) for case in cases)]


def has(case: Row, needs: Sequence[str]) -> bool:
    """Tell whether a figure can show a case.

    Args:
        case: of the report.
        needs: columns of the figure.

    Returns:
        Whether each of them has a number above 0.
    """
    return all((case[name] or 0) > 0 for name in needs)


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
    there = [case for case in cases if has(case, (x, y))]
    (left, right), (low, high) = (decades(case[name] for case in there) for name in (x, y))
    dashes = []
    for factor in lines:
        begin, end = max(left, low / factor), min(right, high / factor)
        if begin < end:
            word = f"{factor:,.0f} call{'s' * (factor > 1)}".replace(",", " ")
            dashes += [{"line": word, "x": at, "y": at * factor, "end": at == end} for at in (begin, end)]
    axes = {
        "x": time_axis(x, x_title, [left, right]),
        "y": time_axis(y, y_title, [low, high]),
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
            {"data": {"name": "cases"}, "transform": valid(x, y), "mark": point(55),
             "encoding": {**axes, **look}},
        ],
    }  # fmt: skip


def _break_even(look: Spec) -> Figure:
    calls = {
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {
            "title": "calls until compiling has paid",
            "labelExpr": COUNT,
            "tickCount": 8,
            "orient": "top",
            "gridOpacity": GRID,
        },
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
            "transform": valid("calls"),
            "layer": [
                {"mark": {"type": "rule", "opacity": 0.45, "tooltip": {"content": "data"}},
                 "encoding": {"x": {"field": "calls_least", **calls}, "x2": {"field": "calls_most"},
                              "color": look["color"]}},
                {"mark": point(45), "encoding": {"x": {"field": "calls", **calls}, **look}},
            ],
            "encoding": {"y": kernel_rows()},
        },
    )  # fmt: skip


def _scaling(look: Spec) -> Figure:
    work = {
        "field": "work_operations",
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {"title": None, "labelExpr": COUNT, "tickCount": 4, "gridOpacity": GRID},
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
                *valid("steady_ns", "work_operations"),
                {"filter": "datum.panel == panel"},
                {"calculate": "datum.roofline_share > 0 ? datum.roofline_share * datum.steady_ns : null",
                 "as": "attainable"},
            ],
            "facet": {"field": "kernel", "type": "nominal", "title": None}, "columns": 4,
            "spec": {
                "width": 200, "height": 150,
                "layer": [
                    {"mark": floor,
                     "encoding": {"x": work, "y": time_axis("attainable", None, ticks=4)}},
                    {"mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8},
                     "encoding": {"x": work, "y": time_axis("steady_ns", None, ticks=4), "color": look["color"]}},
                    {"mark": point(35), "encoding": {"x": work, "y": time_axis("steady_ns", None, ticks=4), **look}},
                ],
            },
            "resolve": {"scale": {"x": "independent", "y": "independent"}},
        },
        panels=True,
        column=255,
    )  # fmt: skip


def _heat(baseline: str, look: Spec) -> Figure:
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
            "transform": [*valid("times"), {"filter": "datum.largest && datum.panel == panel"},
                          {"calculate": log, "as": "log"}, {"calculate": label, "as": "label"}],
            "encoding": {
                "x": {"field": "name", "type": "nominal", "axis": {"title": None, "orient": "top", "labelAngle": -40,
                      "domain": False, "ticks": False}},
                "y": kernel_rows(grid=False),
            },
            "layer": [
                {"mark": {"type": "rect", "cornerRadius": 2, "tooltip": {"content": "data"}},
                 "encoding": {"color": {"field": "log", "type": "quantitative",
                     "scale": {"domain": [-5, 5], "range": "diverging"},
                     "legend": {"title": None, "labelExpr": _TIMES, "values": [-5, -3, 0, 3, 5], "orient": "top",
                                "direction": "horizontal"}}}},
                {"mark": {"type": "text", "fontSize": 10, "tooltip": {"content": "data"}},
                 "encoding": {"text": {"field": "label"}, "color": white}},
            ],
        },
        panels=True,
        least=110 + 36 * len(look["color"]["scale"]["domain"]),
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
            "transform": valid("spread"),
            "mark": point(40),
            "encoding": {
                "y": kernel_rows(),
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
    encoding = {"x": when, "y": time_axis("median_ns", None, ticks=4), "detail": {"field": "id"}}
    return Figure(
        "history",
        "History",
        "Steady time of a call in every complete run of these results, each kernel at its largest size that is "
        "shown. Flagged timings are left out. A ring marks the run from which on a case takes longer for good (orange) "
        "or less (blue).",
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
                    {"mark": point(30), "encoding": {**encoding, **look}},
                    {"transform": [{"filter": "isValid(datum.change)"}],
                     "mark": {**point(170), "filled": False, "strokeWidth": 2, "opacity": 1, "shape": "circle"},
                     "encoding": {**encoding, "color": {
                         "condition": {"test": "datum.change > 1", "value": COLOURS["torch"]},
                         "value": COLOURS["jax"]}}},
                ],
            },
            "resolve": {"scale": {"y": "independent"}},
        },
        panels=True,
        column=255,
    )  # fmt: skip
