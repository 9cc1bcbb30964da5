"""A comparison for others: a table for the terminal, Markdown for a pull request, JSON and JUnit for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.comparison import Compared, Comparison, Left
from flows.comparison_text import between, head, line, ratio
from kernels.phase import Phase
from kernels.progress import duration
from kernels.statistics import Estimate, Verdict

ROWS = 100
"""Rows of a table in Markdown at most: a comment on a pull request has 65 536 characters."""

COLOURS = {Verdict.SLOWER: "red", Verdict.FASTER: "green", Verdict.UNCLEAR: "yellow", Verdict.SAME: "dim"}

_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def show(found: Comparison, console: Console) -> None:
    """Print a comparison for people.

    Args:
        found: the comparison.
        console: where to.
    """
    for text in head(found):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(_phases(found))
    shown = [each for each in found.cases if _worth_a_row(each)]
    if shown:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("verdict", "case", "phase", "baseline", "candidate", "ratio [95 %]", "q", "what else changed"):
            right = title in {"baseline", "candidate", "ratio [95 %]", "q"}
            table.add_column(title, justify="right" if right else "left", no_wrap=title != "what else changed")
        for each in shown:
            table.add_row(*_cells(each), style=None if each.decided else "dim")
        console.print(table)
    for title, left in (("lost", found.lost), ("new", found.new), ("flagged, not compared", found.flagged)):
        for words in _by_case(left):
            console.print(f"{title}: {words}", markup=False, highlight=False, soft_wrap=True)


def _by_case(left: Sequence[Left]) -> list[str]:
    """Put what is said of a case's phases into one line."""
    cases: dict[str, list[str]] = {}
    for each in left:
        cases.setdefault(each.case, []).append(str(each).removeprefix(each.case))
    return [case + ";".join(words) for case, words in cases.items()]


def markdown(found: Comparison) -> str:
    """Write a summary for a pull request.

    Args:
        found: the comparison.

    Returns:
        GitHub's Markdown: what is slower is open, all else folded.
    """
    slower, broken = len(found.regressions), len(found.broken)
    title = ", ".join(
        words for words, count in ((f"{slower} slower", slower), (f"{broken} failing that were ok", broken)) if count
    )
    text = [f"## jitmatrix: {title or 'no regression'}", "", *(f"- {_md(each)}" for each in head(found)), ""]
    text += [*_md_phases(found), ""]
    by = {verdict: [c for c in found.cases if c.decided and c.verdict is verdict] for verdict in Verdict}
    if by[Verdict.SLOWER]:
        text += ["### Slower", "", *_md_cases(by[Verdict.SLOWER]), ""]
    if found.broken:
        text += ["### Failing", "", *(f"- {_md(str(each))}" for each in found.broken[:ROWS]), ""]
    text += _folded("faster", _md_cases(by[Verdict.FASTER]), len(by[Verdict.FASTER]))
    text += _folded("unclear", _md_cases(by[Verdict.UNCLEAR]), len(by[Verdict.UNCLEAR]))
    others = [each for each in found.cases if not each.decided and each.verdict in {Verdict.SLOWER, Verdict.FASTER}]
    text += _folded("different in phases that are not decided on", _md_cases(others), len(others))
    for name, left in (("lost", found.lost), ("new", found.new), ("flagged, not compared", found.flagged)):
        text += _folded(name, [f"- {_md(str(each))}" for each in left[:ROWS]], len(left))
    groups = [mean for mean in found.means if mean.phase in found.phases]
    rows = [[mean.phase, mean.group, str(mean.cases), ratio(mean.ratio)] for mean in groups[:ROWS]]
    text += _folded("geometric means", _md_table(["phase", "group", "cases", "ratio [95 %]"], rows), len(groups))
    return "\n".join(text).rstrip() + "\n"


def javascript(found: Comparison) -> str:
    """Write a comparison as JSON.

    Args:
        found: the comparison.

    Returns:
        An object; an end of an interval that is open is null.
    """
    value = {
        "passed": found.passed,
        "smallest": found.smallest,
        "phases": list(found.phases),
        "baseline": [run.id for run in found.baseline],
        "candidate": [run.id for run in found.candidate],
        "machines": list(found.machines),
        "coverage": {"common": found.common, "baseline": found.of},
        "between_runs": {
            phase: {"deviation": each.deviation, "controls": each.controls} for phase, each in found.between.items()
        },
        "cases": [_plain(each) for each in found.cases],
        **{
            name: [{"case": each.case_id, "reason": each.reason, "broken": each.broken} for each in left]
            for name, left in (("lost", found.lost), ("new", found.new), ("flagged", found.flagged))
        },
        "means": [
            {"phase": mean.phase, "group": mean.group, "cases": mean.cases, **_interval(mean.ratio)}
            for mean in found.means
        ],
    }
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def junit(found: Comparison) -> str:
    """Write a JUnit file: a test for each case and phase that is decided on.

    Args:
        found: the comparison.

    Returns:
        XML: what is slower, or fails now, has failed; what is lost otherwise or flagged was skipped.
    """
    suite = ElementTree.Element("testsuite", name="jitmatrix compare")
    for each in (each for each in found.cases if each.decided):
        test = _test(suite, each.phase, each.case_id, each.candidate_ns)
        if each.verdict is Verdict.SLOWER:
            _said(test, "failure", line(each))
        else:
            ElementTree.SubElement(test, "system-out").text = _xml(line(each))
    for left in found.lost:
        _said(_test(suite, "lost", left.case_id), "failure" if left.broken else "skipped", left.reason)
    for left in found.flagged:
        _said(_test(suite, "flagged", left.case_id), "skipped", left.reason)
    for name, path in (("tests", "testcase"), ("failures", "testcase/failure"), ("skipped", "testcase/skipped")):
        suite.set(name, str(len(suite.findall(path))))
    suite.set("errors", "0")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _worth_a_row(each: Compared) -> bool:
    """What is the same is counted; of phases that are not decided on, what is unclear too."""
    return each.verdict in ({*COLOURS} - {Verdict.SAME} if each.decided else {Verdict.SLOWER, Verdict.FASTER})


def _phases(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _PHASES:
        table.add_column(title, justify="left" if title == "phase" else "right", no_wrap=True)
    for row in _phase_rows(found):
        table.add_row(*row)
    return table


_PHASES = ("phase", "compared", *Verdict, "mean ratio [95 %]", "spread between runs")


def _phase_rows(found: Comparison) -> list[list[str]]:
    rows = []
    for mean in found.means:
        if mean.group != "all":
            continue
        words = [each.verdict for each in found.cases if each.phase is mean.phase]
        name = f"{mean.phase}{'' if mean.phase in found.phases else ' (not decided on)'}"
        counts = [str(words.count(verdict)) for verdict in Verdict]
        rows.append([name, str(mean.cases), *counts, ratio(mean.ratio), between(found, mean.phase)])
    # A phase that decides and of which nothing may be compared passes every gate: it is said.
    missing = [phase for phase in found.phases if not any(mean.phase is phase for mean in found.means)]
    return rows + [[phase, "0", *["0"] * len(Verdict), "", ""] for phase in missing]


def _cells(each: Compared) -> list[str]:
    colour = COLOURS[each.verdict]
    return [
        f"[{colour}]{each.verdict}[/{colour}]",
        escape(each.case_id),
        each.phase,
        duration(each.baseline_ns),
        duration(each.candidate_ns),
        ratio(each.ratio),
        "" if each.q_value is None else f"{each.q_value:.2g}",
        escape("; ".join(map(str, each.changes)) or "nothing"),
    ]


def _md_phases(found: Comparison) -> list[str]:
    return _md_table(_PHASES, _phase_rows(found))


def _md_cases(cases: Sequence[Compared]) -> list[str]:
    rows = [
        [
            f"`{each.case_id}`",
            each.phase,
            f"{duration(each.baseline_ns)} → {duration(each.candidate_ns)}",
            ratio(each.ratio),
            "; ".join(map(str, each.changes)) or "nothing",
        ]
        for each in cases[:ROWS]
    ]
    more = [f"\nand {len(cases) - ROWS} more"] if len(cases) > ROWS else []
    return [*_md_table(["case", "phase", "time", "ratio [95 %]", "what else changed"], rows), *more]


def _md_table(titles: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    titles = list(titles)
    lines = [titles, ["---"] * len(titles), *([_md(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _md(text: str) -> str:
    """Keep text from being taken for markup: reasons hold what programs said."""
    plain = " ".join(text.split()).replace("|", "\\|")
    return plain if plain.startswith("`") else plain.replace("<", "&lt;").replace("@", "&#64;")


def _folded(title: str, lines: Sequence[str], count: int) -> list[str]:
    if not count:
        return []
    return ["<details>", f"<summary>{count} {title}</summary>", "", *lines, "", "</details>", ""]


def _plain(each: Compared) -> dict[str, Any]:
    return {
        "case": each.case_id,
        "phase": each.phase,
        "kernel": each.kernel,
        "framework": each.framework,
        "backend": each.backend,
        "decided": each.decided,
        "verdict": each.verdict,
        "baseline_ns": each.baseline_ns,
        "candidate_ns": each.candidate_ns,
        **_interval(each.ratio),
        "p_value": each.p_value,
        "q_value": each.q_value,
        "changes": [{"name": c.name, "before": c.before, "after": c.after} for c in each.changes],
    }


def _interval(value: Estimate) -> dict[str, float | None]:
    closed = math.isfinite(value.high)
    return {"ratio": value.value, "low": value.low if closed else None, "high": value.high if closed else None}


def _test(suite: ElementTree.Element, group: str | Phase, name: str, ns: float = 0.0) -> ElementTree.Element:
    known = {"classname": f"jitmatrix.{group}", "name": _xml(name), "time": f"{ns / 1e9:.9f}"}
    return ElementTree.SubElement(suite, "testcase", known)


def _said(test: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(test, tag, {"message": _xml(text)})


def _xml(text: str) -> str:
    """Leave out what XML cannot hold, such as the colours of a terminal."""
    return _NO_XML.sub("", text)
