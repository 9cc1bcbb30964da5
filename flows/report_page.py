"""The page of a report: one HTML file that carries its numbers, its figures and the library that draws them."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from flows import report_payload
from flows.findings_data import NOT_COMPILED
from flows.references import json_of
from flows.report_changes import Row
from flows.report_data import ReportData
from flows.report_figure import VEGA_LITE
from flows.report_figures import figures
from flows.report_look import DARK, symbols, theme
from flows.sides import workers
from kernels.progress import digits

FOLDER = Path(__file__).parent / "html"

_SCRIPTS = ("cases.js", "filters.js", "table.js", "card.js", "figures.js", "report.js")
_SHOWN_CASES = 20


def page(data: ReportData, address: str, now: datetime | None = None) -> str:
    """Write the page.

    Args:
        data: what it says.
        address: of the root that the results are from.
        now: time of writing; now where it is None.

    Returns:
        HTML that refers to nothing outside itself.
    """
    drawn = figures(data.cases, data.history, data.baseline)
    flagged = [case for case in data.cases if case["status"] == "ok" and case["note"]]
    failed = [case for case in data.cases if case["status"] not in ("ok", "skipped", "unavailable")]
    compiled = [case for case in data.cases if case["status"] == "ok" and case["mode"] not in NOT_COMPILED]
    carried = {
        "baseline": data.baseline,
        "columns": report_payload.columns(data.cases),
        "timing": report_payload.TIMING,
        "timings": report_payload.timings(data.cases),
        "history": report_payload.history(data),
        "figures": [
            {
                "key": each.key,
                "needs": each.needs,
                "spec": each.spec,
                "panels": each.panels,
                "column": each.column,
                "least": each.least,
            }
            for each in drawn
        ],
        "themes": {"light": theme(dark=False), "dark": theme(dark=True)},
        "dark": DARK,
    }
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"digits": digits, "log2": math.log2}
    return environment.get_template("report.html").render(
        data=data,
        address=address,
        written=now or datetime.now(UTC),
        figures=drawn,
        symbols=symbols(data.cases),
        status=Counter(case["status"] for case in data.cases),
        flagged=flagged,
        failed=failed,
        paying=sum(case["calls"] is not None for case in compiled),
        compiled=len(compiled),
        workers=workers,
        kernels=len({case["kernel"] for case in data.cases}),
        machines=[_machine(run) for run in _one_of_each(data.runs) if run["machine"]],
        style=Markup((FOLDER / "report.css").read_text(encoding="utf-8")),
        script=Markup("\n".join((FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)),
        library=Markup(_library()),
        carried=Markup(_json(carried)),
        shown=_SHOWN_CASES,
    )


@functools.cache
def _library() -> str:
    """Bundle Vega, Vega-Lite and Vega-Embed: a second and more."""
    import vl_convert

    # Within a script element nothing ends it but its own end tag.
    bundle: str = vl_convert.javascript_bundle(None, VEGA_LITE)  # type: ignore[arg-type]
    return bundle.replace("</script", "<\\/script")


def _json(value: Any) -> str:
    """Write JSON that may stand in a script element, whatever words a kernel's error has."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _one_of_each(runs: list[Row]) -> list[Row]:
    """Keep the newest run of each machine and environment, less what changes by itself."""
    kept: dict[str, Row] = {}
    for run in runs:
        environment = {**json_of(run["environment"]), "load": None}
        kept.setdefault(json.dumps([run["machine"], environment], sort_keys=True), run)
    return list(kept.values())


def _machine(run: Row) -> dict[str, Any]:
    """Tell in words what a run was measured on."""
    hardware, environment = json_of(run["hardware"]), json_of(run["environment"])
    memory, cache = (
        (hardware.get(name) or 0) / scale for name, scale in (("memory_nbytes", 2**30), ("cache_nbytes", 2**20))
    )
    affinity = environment.get("affinity") or []
    told = {
        "fingerprint": run["machine"],
        "processor": hardware.get("cpu_model"),
        "processors": f"{len(affinity)} of {hardware.get('cores')} usable" if affinity else hardware.get("cores"),
        "memory": f"{memory:.0f} GiB" if memory else None,
        "last-level cache": f"{cache:.0f} MiB" if cache else None,
        "accelerators": ", ".join(hardware.get("accelerators") or ()),
        "system": environment.get("operating_system"),
        "Python": environment.get("python"),
        "versions": ", ".join(f"{name} {version}" for name, version in (environment.get("versions") or {}).items()),
        "variables": ", ".join(f"{name}={value}" for name, value in (environment.get("variables") or {}).items()),
        "governor": environment.get("governor"),
        "image": run["image"],
        "commit": f"{run['commit']}{', with changes' if run['dirty'] else ''}" if run["commit"] else None,
        "command": run["command"],
        "roofline": _rooflines(json_of(run["roofline"])),
        "warnings": "; ".join(run["warnings"] or ()),
    }
    return {"run": run, "told": {name: value for name, value in told.items() if value}}


def _rooflines(found: dict[str, Any]) -> str:
    """Tell rooflines of backends: bandwidths between arrays and in the caches, and rates by dtype."""
    words = []
    for backend, each in found.items():
        rates = {name: value for name, value in each.items() if isinstance(value, int | float)}
        bandwidths = [
            f"{name.removesuffix('_bytes_per_s')} {digits(value / 1e9)} GB/s"
            for name, value in rates.items()
            if name.endswith("_bytes_per_s")
        ]
        operations = [
            f"{name.rpartition('_')[2]} {digits(value / 1e9)} billion operations/s"
            for name, value in rates.items()
            if name.startswith("operations_per_s_")
        ]
        words.append(f"{backend}: {', '.join([*bandwidths, *operations])}")
    return "; ".join(words)
