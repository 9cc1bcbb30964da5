"""The page of findings: the questions that the project began with, answered from stored runs in sentences and tables.

``python -m flows.findings ROOT`` prints it; ``make findings`` measures, and writes it to docs/findings.md. No number
and no verdict is typed: they are computed from the Parquet files.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from flows import findings_costs as costs
from flows import findings_shapes as shapes
from flows import findings_speeds as speeds
from flows.findings_data import PHASES, Findings, Row, gather
from flows.findings_text import cell, table
from flows.pages import code, fenced, text
from flows.references import json_of
from flows.storage import Root, StorageError, root
from kernels.errors import UsageError
from kernels.progress import number

_HEAD = """\
# Findings

Written by `python -m flows.findings` from the Parquet files of the runs at its end. `make findings` measures anew,
in runs of its own, and writes this page.
"""

_LEADING = ("jax/jit", "torch/compile", "tensorflow/xla", "first_call")
"""Of an answer with several sentences, the one of this mode or phase stands for it at the head of the page."""

_SHORT = """
## In short

A sentence of each answer, for `jax/jit` where there is one; the sections have the other modes, and every case.
"""

_METHOD = """
## How to read it

Times are per call, waited for; a median of the medians of several processes with its 95 % interval. A ratio is that of
geometric means over processes, with the interval of [compare.md](compare.md): where it holds 1, the page says
*unclear*. A timing with a flag is in no ratio, unless it says so; the flags stand at the end. Threads are as many as
the run's processors, but for cases of *one thread*, which are pinned to a core. Each interval stands for itself: of
twenty timings that do not differ, one is called longer or shorter. [method.md](method.md) has the rest.
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
        ("What does a new shape cost?", shapes.new_shape(found)),
        ("A decorator or a function?", costs.forms(found)),
        ("NumPy or JAX, at equal dtype?", speeds.against_numpy(found, "jax", "JAX")),
        ("Where does the hundredfold come from?", speeds.not_waited_for(found)),
        ("NumPy or PyTorch?", speeds.against_numpy(found, "torch", "PyTorch")),
        ("NumPy or TensorFlow?", speeds.against_numpy(found, "tensorflow", "TensorFlow")),
        ("NumPy or Numba?", speeds.against_numpy(found, "numba", "Numba")),
        ("What is a result cache, and what is it not?", speeds.result_cache(found)),
        ("What is flagged, and what failed", _apart(found)),
    )
    head = [_HEAD, *_machines(found.runs), _SHORT, *(_short(*section) for section in sections), _METHOD]
    lines = [line for title, answer in sections for line in (f"## {title}", "", *answer)]
    return "\n".join([*head, *lines, "## The runs", "", *_runs(found.runs)]).rstrip() + "\n"


def _short(title: str, answer: Sequence[str]) -> str:
    """Give the sentence that stands for an answer, after a link to its section."""
    sentences = [line.removeprefix("- ") for line in answer if line.startswith("- ")] or [answer[0]]
    leading = [line for name in _LEADING for line in sentences if line.startswith(code(name))]
    anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
    return f"- [{title}](#{anchor}) {(leading or sentences)[0]}"


def _machines(runs: Sequence[Row]) -> list[str]:
    """Name the machine, the versions, and what the runs were warned of."""
    # Of those of one kind, such as a load that each run found another, one stands for all.
    warnings: dict[str, list[str]] = {}
    for warning in sorted(warning for run in runs for warning in run["warnings"] or ()):
        warnings.setdefault(warning.partition(":")[0], []).append(warning)
    environments = [json_of(run["environment"]) for run in runs]
    # Of a run that no machine took, such as a sweep's share without a worker, no hardware is known.
    taken = next((run for run in reversed(runs) if run["machine"]), runs[-1])
    return [
        f"- machine: {text(_machine(json_of(taken['hardware']), json_of(taken['environment'])))}, fingerprint "
        f"{code(taken['machine'] or 'not known')}",
        f"- software: {text(_software(environments))}",
        *(f"- warnings of {number(len(each), 'run')}, such as {text(each[-1])}" for each in warnings.values()),
    ]


def _runs(runs: Sequence[Row]) -> list[str]:
    """Name of each run its command, commit, day and counts."""
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
    return [
        *table(("run", "matrix", "begun", "commit", "ok", "failed", "skipped"), rows),
        fenced("\n".join(_command(run["command"]) for run in runs)),
    ]


def _machine(hardware: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    memory = hardware.get("memory_nbytes")
    return ", ".join(
        [
            hardware.get("cpu_model") or "processor not told",
            f"{len(environment.get('affinity') or ())} of {hardware.get('cores') or 'unknown'} processors",
            *([f"{memory / 2**30:.0f} GiB"] if memory else []),
            *map(str, hardware.get("accelerators") or ()),
        ]
    )


def _software(environments: Sequence[Mapping[str, Any]]) -> str:
    """Name every version that was in one of the runs."""
    found: dict[str, list[str]] = {}
    for each in environments:
        versions = {"": each.get("operating_system"), "Python": each.get("python"), **(each.get("versions") or {})}
        for name, version in versions.items():
            if version and version not in found.setdefault(name, []):
                found[name].append(version)
    return ", ".join(f"{name} {' and '.join(versions)}".strip() for name, versions in found.items() if versions)


def _command(line: str | None) -> str:
    """Write a run's command without its root: that is a path of one machine."""
    words = shlex.split(line or "")
    if "--results" in words:
        at = words.index("--results")
        del words[at : at + 2]
    return shlex.join(words) or "no command repeats it"


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
    not_ok, cells = sum(case.status != "ok" for case in found.cases), number(len(found.cases), "cell")
    return [
        f"Flagged: {len(flagged)} of {number(timed, 'timing')}. Not ok: {not_ok} of {cells}.",
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
