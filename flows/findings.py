"""The page of findings: the questions that the project began with, answered from stored runs in sentences and tables.

``python -m flows.findings ROOT`` prints it; ``make findings`` measures, and writes it to docs/findings.md. No number
and no verdict is typed: they are computed from the Parquet files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC

from flows import findings_costs as costs
from flows import findings_speeds as speeds
from flows.findings_data import PHASES, Findings, Row, gather
from flows.findings_text import cell, table
from flows.pages import code, fenced, text
from flows.references import json_of
from flows.storage import Root, StorageError, root
from kernels.errors import UsageError

COMMAND = "make findings"
"""What measures and writes the page."""

_METHOD = """
Times are per call, waited for; a median of the medians of several processes with its 95 % interval. A ratio is that of
geometric means over processes, with the interval of [compare.md](compare.md): where it holds 1, the page says
*unclear*. A timing with a flag is in no ratio, unless it says so; the flags stand at the end. Threads are as many as
the run's processors, but for cases of *one thread*, which are pinned to a core. [method.md](method.md) has the rest.
"""


def page(target: Root) -> str:
    """Write the page.

    Args:
        target: root of the results.

    Returns:
        Markdown.

    Raises:
        UsageError: there is no complete run, or machines differ.
        StorageError: the root cannot be read.
    """
    found = gather(target)
    sections = (
        ("Is the first call slower than eager?", costs.first_call(found)),
        ("After how many calls does compiling pay?", costs.calls(found)),
        ("What does a new shape cost?", costs.new_shape(found)),
        ("A decorator or a function?", costs.forms(found)),
        ("NumPy or JAX, at equal dtype?", speeds.against_numpy(found, "jax", "JAX")),
        ("Where does the hundredfold come from?", speeds.not_waited_for(found)),
        ("NumPy or PyTorch?", speeds.against_numpy(found, "torch", "PyTorch")),
        ("NumPy or TensorFlow?", speeds.against_numpy(found, "tensorflow", "TensorFlow")),
        ("NumPy or Numba?", speeds.against_numpy(found, "numba", "Numba")),
        ("What is a result cache, and what is it not?", speeds.result_cache(found)),
        ("What is flagged, and what failed", _apart(found)),
    )
    head = [
        f"# Findings\n\nWritten by `{COMMAND}` from the Parquet files of the runs below.\n",
        *_runs(found.runs),
        _METHOD,
    ]
    lines = [line for title, answer in sections for line in (f"## {title}", "", *answer)]
    return "\n".join([*head, *lines]).rstrip() + "\n"


def _runs(runs: Sequence[Row]) -> list[str]:
    """Name the machine, the versions, and for each run its command, commit, day and counts."""
    newest = runs[-1]
    hardware, environment = json_of(newest["hardware"]), json_of(newest["environment"])
    versions = ", ".join(f"{name} {version}" for name, version in (environment.get("versions") or {}).items())
    memory = hardware.get("memory_nbytes")
    machine = [
        hardware.get("cpu_model") or "processor not told",
        f"{len(environment.get('affinity') or ())} of {hardware.get('cores')} processors",
        *([f"{memory / 2**30:.0f} GiB"] if memory else []),
        *hardware.get("accelerators", []),
    ]
    rows = [
        [
            code(run["run_id"]),
            text(run["matrix"] or ""),
            f"{run['started_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC",
            code((run["commit"] or "none")[:12]) + (" with changes" if run["dirty"] else ""),
            *(str(run[name]) for name in ("ok", "failed", "skipped")),
        ]
        for run in runs
    ]
    warnings = sorted({warning for run in runs for warning in run["warnings"] or ()})
    software = (
        f"{text(environment.get('operating_system') or '')}, Python {environment.get('python')}, {text(versions)}"
    )
    return [
        f"- machine: {text(', '.join(map(str, machine)))}, fingerprint {code(newest['machine'] or 'not known')}",
        f"- software: {software}",
        *(f"- warning of the run: {text(warning)}" for warning in warnings),
        "",
        *table(("run", "matrix", "begun", "commit", "ok", "failed", "skipped"), rows),
        fenced("\n".join(run["command"] or "no command repeats it" for run in runs)),
    ]


def _apart(found: Findings) -> list[str]:
    flagged = [
        [cell(case), case.name, phase, ", ".join(case.timings[phase].flags)]
        for case in found.cases
        for phase in PHASES
        if phase in case.timings and case.timings[phase].flags
    ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in found.cases:
        if case.status != "ok":
            reasons.setdefault((case.status, case.reason or ""), []).append(case.case_id)
    failed = [
        [status, text(reason), str(len(cases)), code(min(cases))]
        for (status, reason), cases in sorted(reasons.items(), key=lambda each: (each[0][0] == "skipped", each[0]))
    ]
    timed = sum(len(case.timings) for case in found.cases)
    not_ok = sum(case.status != "ok" for case in found.cases)
    return [
        f"{len(flagged)} of {timed} timings carry a flag; {not_ok} of {len(found.cases)} cells are not ok.",
        "",
        *table(("case", "mode", "phase", "flags"), flagged, "flagged timings"),
        *table(("status", "reason", "cells", "one of them"), failed, "cells that are not ok"),
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the page.

    Args:
        arguments: the root of the results.

    Returns:
        0; 2 where no root is named or it has nothing to tell of.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m flows.findings ROOT > docs/findings.md\n")
        return 2
    try:
        sys.stdout.write(page(root(arguments[0], to_read=True)))
    except (UsageError, StorageError) as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
