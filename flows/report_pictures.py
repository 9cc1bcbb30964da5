"""The figures of a report as files: SVG for pages and print, PNG for wherever SVG is not taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from flows.durable import publish
from flows.report_changes import Row
from flows.report_data import ReportData
from flows.report_figure import VEGA_LITE, Figure, has
from flows.report_figures import figures
from flows.report_look import Spec, theme
from flows.report_payload import records

_WIDTH = 900
_COLUMNS = 4
_PNG_SCALE = 2.0


def draw(data: ReportData, folder: Path) -> list[Path]:
    """Draw every figure, one that shows a panel at a time for each of its panels.

    Args:
        data: of the report.
        folder: where to; it is made where there is none, and files of the same names are replaced.

    Returns:
        The files, such as ``compile.svg`` and ``scaling-float32.png``.

    Raises:
        OSError: they cannot be written.
    """
    import vl_convert

    cases, points = records(data)
    written = []
    for figure in figures(data.cases, data.history, data.baseline):
        for panel in _panels(figure, cases):
            spec = _standing(figure, panel, cases, points)
            name = re.sub(r"[^A-Za-z0-9]+", "-", f"{figure.key} {panel}").strip("-")
            settings: dict[str, Any] = {"config": theme(dark=False), "allowed_base_urls": []}
            svg = vl_convert.vegalite_to_svg(spec, VEGA_LITE, **settings)
            png = vl_convert.vegalite_to_png(spec, VEGA_LITE, scale=_PNG_SCALE, **settings)
            for path, content in ((folder / f"{name}.svg", svg.encode()), (folder / f"{name}.png", png)):
                publish(path, content)
                written.append(path)
    return written


def _panels(figure: Figure, cases: list[Row]) -> Iterator[str]:
    """Name the panels that a figure has something for; one without a name where it shows all at once."""
    if not figure.panels:
        yield ""
        return
    yield from sorted({case["panel"] for case in cases if has(case, figure.needs)})


def _standing(figure: Figure, panel: str, cases: list[Row], points: list[Row]) -> Spec:
    """Give a figure its numbers and the size that a page would."""
    spec = deepcopy(figure.spec)
    spec["title"] = {"text": figure.title, "subtitle": panel, "anchor": "start", "offset": 12}
    spec["datasets"] = {"cases": cases, "history": points}
    if figure.column:
        spec["columns"] = _COLUMNS
    else:
        spec["width"] = max(_WIDTH, figure.least)
    if figure.panels:
        spec["params"] = [{"name": "panel", "value": panel}]
    return spec
