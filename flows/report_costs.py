"""Figures of what compiling costs, and of when it has paid."""

from __future__ import annotations

from collections.abc import Sequence

from flows.report_changes import Row
from flows.report_figure import FIT, SCHEMA, Figure, has
from flows.report_look import COUNT, GRID, Spec, decades, kernel_rows, point, time_axis, valid


def compilation(cases: Sequence[Row], look: Spec) -> Figure:
    """Set the backend's compilation of each case against a steady call.

    Args:
        cases: of the report.
        look: colour and shape of each framework and mode.

    Returns:
        The figure.
    """
    needs = ("compile_ns", "steady_ns")
    return Figure(
        "compile",
        "Compile time against run time",
        "Each mark is a case: the backend's compilation alone, cold, over one steady call. On a dashed line "
        "compiling takes as long as so many calls. Frameworks that cannot separate compiling are not here.",
        needs,
        _against(cases, look, x="steady_ns", x_title="one steady call", y="compile_ns", y_title="compilation"),
    )


def first_call(cases: Sequence[Row], look: Spec) -> Figure:
    """Set the first call of each case against a steady one.

    Args:
        cases: of the report.
        look: colour and shape of each framework and mode.

    Returns:
        The figure.
    """
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


def break_even(look: Spec) -> Figure:
    """Show after how many calls compiling has paid.

    Args:
        look: colour and shape of each framework and mode.

    Returns:
        The figure.
    """
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
            "$schema": SCHEMA, "width": "container", "autosize": FIT, "height": {"step": 17},
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
