"""The figures of a report: what compiling costs, how steady calls scale and compare, and how they have changed."""

from __future__ import annotations

from collections.abc import Sequence

from flows.report_changes import Row
from flows.report_costs import break_even, compilation, first_call
from flows.report_figure import FIT, SCHEMA, Figure, has
from flows.report_look import COLOURS, COUNT, GRID, Spec, kernel_rows, marks, point, time_axis, valid

_TIMES = "(datum.value < 0 ? '1/' : '') + format(pow(2, abs(datum.value)), '~g') + '\u00d7'"


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
    drawn = [compilation(cases, look), first_call(cases, look), break_even(look), _scaling(look), _heat(baseline, look)]
    drawn += [_spread(look), *([_history(look)] if several else [])]
    return [figure for figure in drawn if any(has(case, figure.needs) for case in cases)]


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
        f"Blue is faster than {baseline}, orange slower; each kernel at the largest size at which one can be "
        "compared. A blank cell was not measured there, failed, or is flagged: it is in no comparison.",
        ("times",),
        {
            "$schema": SCHEMA, "width": "container", "autosize": FIT, "height": {"step": 21},
            "data": {"name": "cases"},
            "params": [{"name": "panel", "value": ""}],
            "transform": [*valid("times"), {"filter": "datum.panel == panel"},
                          {"joinaggregate": [{"op": "max", "field": "extent", "as": "most"}], "groupby": ["kernel"]},
                          {"filter": "datum.extent == datum.most"},
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
            "$schema": SCHEMA, "width": "container", "autosize": FIT, "height": {"step": 17},
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
            # Each panel with its days: the lowest row's are out of sight.
            "resolve": {"scale": {"y": "independent"}, "axis": {"x": "independent"}},
        },
        panels=True,
        column=255,
    )  # fmt: skip
