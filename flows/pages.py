"""What the artifacts of a flow show, as plain text and JSON values; nothing of Prefect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flows.brief import Brief
from flows.table import written
from kernels.measurement import Measurement, Status
from kernels.phase import Phase

ROWS = 2000
"""Rows that a table artifact holds at most: more make the page slow, and the Parquet files have them all."""

CASES = 5
"""Cases that are named for a reason; the others are counted."""

RUNS = 20
"""Runs of a report that are named; the others are counted."""

LINES = 8
"""Lines that are shown of what a failed kernel printed,"""

COLUMNS = 200
"""and characters of each."""

HEAD = ("case", "first call", "compile", "steady [95 %]", "x numpy", "break-even [95 %]", "notes")
"""Columns of the result table."""

COUNTS = ("planned", "ok", "failed", "skipped")
"""What is counted of a run."""

Rows = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that is not ok.

    Attributes:
        case_id: the case.
        status: how it ended.
        reason: why, in words.
        printed: the first lines of what its kernel printed; empty where it printed nothing.
    """

    case_id: str
    status: str
    reason: str
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """What became of one backend's share of a sweep.

    Attributes:
        backend: cpu, gpu or tpu.
        deployment: that it was sent to.
        run_id: of its run.
        state: name of the state that the run ended in.
        counts: planned, ok, failed, skipped.
        message: why the backend was unavailable, or what the state says; empty where nothing needs saying.
        image: that it ran in, where the sweep named one.
    """

    backend: str
    deployment: str
    run_id: str
    state: str
    counts: Mapping[str, int]
    message: str = ""
    image: str = ""


def results(measurements: Sequence[Brief]) -> tuple[Rows, Rows]:
    """Lay out the result table.

    Args:
        measurements: of every cell.

    Returns:
        The rows that may be compared, of each kernel, size and dtype the fastest first; and those that may not be: they
        bear a flag, or did not end ok.
    """
    ranked, apart = list[tuple[tuple[object, ...], dict[str, str]]](), Rows()
    for measurement, cells in written(measurements):
        row = dict(zip(HEAD, cells, strict=True))
        if measurement.trusted:
            case = measurement.case
            steady = measurement.timings[Phase.STEADY].median_ns
            group = (case.kernel, case.size != "S", case.size != "M", case.size, case.dtype, case.derivative)
            ranked.append(((*group, case.backend.value, steady), row))
        else:
            apart.append(row)
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])], apart


def failed(measurement: Measurement | Brief) -> Failure:
    """Keep of a case that is not ok what its page shows.

    Args:
        measurement: of the case.

    Returns:
        Its reason, and the first lines of what its kernel printed.
    """
    printed = str(measurement.facts.get("output_tail") or "").splitlines()
    lines = [line[:COLUMNS] for line in printed if line.strip()]
    first = "\n".join(lines[:LINES])
    return Failure(measurement.case.id, measurement.status.value, measurement.reason or "", first)


def failures(found: Iterable[Failure]) -> str:
    """Write the page of cases that are not ok.

    Args:
        found: the cases.

    Returns:
        Markdown: by status and reason, what was tried before what was not, the most frequent first; with the first
        cases, and what the first of them that printed anything printed.
    """
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in found:
        groups.setdefault((failure.status, failure.reason), []).append(failure)
    parts = []
    untried = (Status.UNAVAILABLE.value, Status.SKIPPED.value)
    for (status, reason), cases in sorted(groups.items(), key=lambda group: (group[0][0] in untried, -len(group[1]))):
        named = ", ".join(code(failure.case_id) for failure in cases[:CASES])
        more = f" and {len(cases) - CASES} more" if len(cases) > CASES else ""
        lines = [f"### {len(cases)} {status}", fenced(reason or "no reason was given"), f"{named}{more}"]
        shown = next((failure for failure in cases if failure.printed), None)
        if shown:
            lines += [f"{code(shown.case_id)} printed:", fenced(shown.printed)]
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts) + "\n"


def files(run_id: str, addresses: Sequence[str], root: str, unsent: str = "", report: str | None = None) -> str:
    """Write the page that says where a run's results are.

    Args:
        run_id: the run.
        addresses: of its Parquet files, as paths or s3:// addresses.
        root: address of the root, for the commands that read it.
        unsent: why results are not where they belong; empty where they are there.
        report: address of the newest report that is stored beside them; None where there is none.

    Returns:
        Markdown: a line a file, the report, and commands that read the results and write the run's own report.
    """
    lines = [f"Run {code(run_id)}", "", *(f"- {code(address)}" for address in addresses), ""]
    lines += [f"**{text(unsent)}**", ""] if unsent else []
    lines += [f"Newest report of these results: {code(report)}", ""] if report else []
    commands = (f"jitmatrix query runs --results {root}", f"jitmatrix report --run {run_id} --results {root}")
    return "\n".join([*lines, fenced("\n".join(commands))]) + "\n"


def report(address: str, cases: int, runs: Sequence[str]) -> str:
    """Write the page that says where a report is, and of what.

    Args:
        address: of the report, as a path or s3:// address.
        cases: that it has.
        runs: their ids, the newest first.

    Returns:
        Markdown.
    """
    lines = [f"Report {code(address)}", "", f"Cases {cases}, runs {len(runs)}:", ""]
    lines += [f"- {code(run)}" for run in runs[:RUNS]]
    lines += [f"- and {len(runs) - RUNS} more"] if len(runs) > RUNS else []
    return "\n".join(lines) + "\n"


def sweep(shares: Sequence[Share], comparison: Sequence[str], plan: str, root: str) -> str:
    """Write the page of a sweep.

    Args:
        shares: of each backend, and of each image where there are several.
        comparison: lines of the comparison with the baseline; empty where there is none.
        plan: address of the plan.
        root: address of the root.

    Returns:
        Markdown: what became of every backend, the sums, the comparison, and where plan and results are.
    """
    named = any(share.image for share in shares)
    head = ["backend", *(["image"] if named else []), "deployment", "run", "state", *COUNTS]
    lines = [_row(head), _row(["---"] * len(head))]
    for share in shares:
        cells = [share.backend, *([share.image] if named else []), share.deployment, share.run_id, share.state]
        lines.append(_row([*cells, *(str(share.counts.get(name, 0)) for name in COUNTS)]))
    sums = [str(sum(share.counts.get(name, 0) for share in shares)) for name in COUNTS]
    lines += [_row(["all", *[""] * (len(head) - 5), *sums]), ""]
    lines += [f"- {text(share.backend)}: {text(share.message)}" for share in shares if share.message]
    if comparison:
        lines += ["", "### Compared with the baseline", "", fenced("\n".join(comparison))]
    return "\n".join([*lines, "", f"Plan {code(plan)}, results {code(root)}"]) + "\n"


def text(value: str) -> str:
    """Write a value so that Markdown and HTML take nothing in it for their own.

    Args:
        value: any text.

    Returns:
        One line.
    """
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(value.split()))


def code(value: str) -> str:
    """Write a value as code within a line.

    Args:
        value: any text.

    Returns:
        The value between as many backticks as it takes.
    """
    value = " ".join(value.split())
    ticks = "`" * (1 + max(map(len, re.findall("`+", value)), default=0))
    space = " " if "`" in value else ""
    return f"{ticks}{space}{value}{space}{ticks}"


def fenced(value: str) -> str:
    """Write lines as a block of code.

    Args:
        value: any text.

    Returns:
        The block, its fence longer than any in the text.
    """
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", value)), default=0))
    return f"{ticks}text\n{value}\n{ticks}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(text(cell) if cell != "---" else cell for cell in cells) + " |"
