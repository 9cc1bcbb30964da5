"""The command `jitmatrix history`: cases over all runs, and where their times changed for good."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def history(
    *names: str,
    results: str | None = None,
    phase: str = "steady",
    framework: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    smallest: float = 0.05,
    format: Literal["table", "json"] = "table",
) -> int:
    """Follow cases over all complete runs: every run's time, and each change with the commits and versions around it.

    Args:
        names: kernels, such as dense, or ids of cases, such as dense-jax-jit-M-float32-cpu.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        phase: what was timed, such as steady, compile or first_call.
        framework: follow this framework (jax) or mode (jax/jit) alone; may be repeated.
        smallest: the least relative change that matters.
        format: table for people, json for programs.
    """
    from flows.history import histories
    from flows.settings import settings
    from flows.storage import root
    from kernels.errors import UsageError, unknown

    if not names:
        raise UsageError("history: name a kernel or a case, such as dense or dense-jax-jit-M-float32-cpu")
    if not 0 < smallest < 1:
        raise UsageError(f"--smallest {smallest:g}: it is a relative difference, above 0 and below 1, such as 0.05")
    found = histories(root(results or settings().results, to_read=True), names, phase, smallest)
    if framework:
        names_of = {each.mode: {each.mode, each.mode.partition("/")[0]} for each in found}
        known = sorted(set().union(*names_of.values()))
        for name in framework:
            if name not in known:
                raise unknown("framework", name, known, "--framework; of what was measured")
        found = [each for each in found if names_of[each.mode].intersection(framework)]
    if format == "json":
        sys.stdout.write(json.dumps([_plain(each) for each in found], indent=1, ensure_ascii=False) + "\n")
    else:
        _show(found)
    return 0


def _show(found: list[Any]) -> None:
    from flows.comparison_text import ratio
    from kernels.progress import duration, number

    for each in found:
        runs = number(len(each.points), "run")
        flagged = f", {each.flagged} flagged and left out" if each.flagged else ""
        sys.stdout.write(f"{each.key} {each.phase}, machine {each.machine}: {runs}{flagged}\n")
        marks = {change.after.run.id: change for change in each.changes}
        for point in each.points:
            change = marks.get(point.run.id)
            if change is not None:
                changed = ", ".join(map(str, change.changes)) or "nothing that is recorded"
                word = "slower" if change.ratio.value > 1 else "faster"
                sys.stdout.write(f"  --- {word}, {ratio(change.ratio)}; changed: {changed}\n")
            sys.stdout.write(f"  {point.run.started_at:%Y-%m-%d %H:%M}  {point.run.id}  {duration(point.ns)}\n")


def _plain(each: Any) -> dict[str, Any]:
    return {
        "case": str(each.key),
        "machine": each.machine,
        "phase": each.phase,
        "flagged": each.flagged,
        "runs": [
            {"run": p.run.id, "started_at": p.run.started_at.isoformat(), "commit": p.run.row.get("commit"), "ns": p.ns}
            for p in each.points
        ],
        "changes": [
            {
                "before": change.before.run.id,
                "after": change.after.run.id,
                "ratio": change.ratio.value,
                "low": change.ratio.low,
                "high": change.ratio.high,
                "changes": [{"name": c.name, "before": c.before, "after": c.after} for c in change.changes],
            }
            for change in each.changes
        ],
    }
