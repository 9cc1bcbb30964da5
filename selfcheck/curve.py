"""The curve of a comparison: how large a slowdown is found how often, drawn as SVG.

``python -m selfcheck.curve docs/detection.svg`` simulates and draws it; the draws have a fixed seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kernels.timing import GATE_ROUNDS
from selfcheck.simulated import Pair, detection

SLOWDOWNS = (1, 3, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30)
"""Per cent."""

COMPARISONS = 60
"""For each point; six of 60 cases are slowed in each."""

_WIDTH, _HEIGHT = 560, 300


def points(comparisons: int = COMPARISONS) -> list[dict[str, float | str]]:
    """Simulate the curve.

    Args:
        comparisons: for each point.

    Returns:
        For each number of rounds and noise, the share of cases found by slowdown, both in per cent.
    """
    series = [(5, 2), (5, 5), (10, 5), (GATE_ROUNDS, 5)]
    return [
        {
            "series": f"{rounds} rounds, {noise} % noise",
            "slowdown": slowdown,
            "found": 100 * detection(Pair(rounds, noise / 100, slowed=6, factor=1 + slowdown / 100), comparisons, 5),
        }
        for rounds, noise in series
        for slowdown in SLOWDOWNS
    ]


def specification(found: list[dict[str, float | str]]) -> dict[str, Any]:
    """Describe the picture to Vega-Lite.

    Args:
        found: as ``points`` gives it.

    Returns:
        The specification.
    """
    names = list(dict.fromkeys(str(each["series"]) for each in found))
    axis = {"grid": True, "gridColor": "#e4e4e4", "labelFontSize": 12, "titleFontSize": 12}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": _WIDTH,
        "height": _HEIGHT,
        "background": "white",
        "layer": [
            {
                "data": {"values": [{"x": 10, "y": 95}]},
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": "#888888"},
                "encoding": {axis_name: {"field": axis_name, "type": "quantitative"}},
            }
            for axis_name in ("x", "y")
        ]
        + [
            {
                "data": {"values": found},
                "mark": {"type": "line", "point": True, "strokeWidth": 2},
                "encoding": {
                    "x": {"field": "slowdown", "type": "quantitative", "title": "slowdown, %", "axis": axis},
                    "y": {"field": "found", "type": "quantitative", "title": "called slower, %", "axis": axis},
                    # Told apart by the colour-blind (Okabe and Ito), and by their marks.
                    "color": {
                        "field": "series",
                        "type": "nominal",
                        "title": None,
                        "sort": names,
                        "scale": {"domain": names, "range": ["#0072b2", "#d55e00", "#009e73", "#444444"]},
                        "legend": {"orient": "bottom", "columns": 2, "labelFontSize": 12},
                    },
                    "shape": {"field": "series", "type": "nominal", "title": None, "sort": names, "legend": None},
                },
            }
        ],
    }


def main(arguments: list[str]) -> int:
    """Draw the curve.

    Args:
        arguments: the file to write.

    Returns:
        0; 2 where no file is named.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m selfcheck.curve FILE.svg\n")
        return 2
    import vl_convert

    Path(arguments[0]).write_text(vl_convert.vegalite_to_svg(specification(points())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
