"""Measure the benchmark itself: ``python -m selfcheck [NAME ...]`` prints every figure with its bound."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.errors import UsageError, unknown
from kernels.machine import Environment, Machine
from selfcheck.figure import Report
from selfcheck.interleaved import NotMeasuredError
from selfcheck.stillness import stillness

CHECKS = (
    "agreement",
    "reproducibility",
    "coverage",
    "compare",
    "cost",
    "workers",
    "seeds",
    "storage",
    "orchestration",
    "report",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: of the command line; None takes those of the process.

    Returns:
        0 where every figure was reached, 1 where one was missed or could not be measured, 2 on wrong input.
    """
    options = _parser().parse_args(arguments)
    try:
        for name in options.names:
            if name not in CHECKS:
                raise unknown("check", name, CHECKS, "selfcheck")
        if options.json is not None and not options.json.absolute().parent.is_dir():
            raise UsageError(f"--json {options.json}: no such folder; name a file in a folder of yours")
    except UsageError as error:
        sys.stderr.write(f"selfcheck: {error}\n")
        return 2
    head = _head(options)
    for line in head:
        _say(line)
    found = {name: _check(name, options.quick) for name in options.names or CHECKS}
    reports = [report for report in found.values() if isinstance(report, Report)]
    figures = [figure for report in reports for figure in report.figures]
    reached = sum(figure.reached for figure in figures)
    failed = len(found) - len(reports)
    _say(f"\n{reached} of {len(figures)} figures reached" + (f", {failed} checks could not be made" if failed else ""))
    if options.json is not None:
        checks = {name: report.to_json() if isinstance(report, Report) else report for name, report in found.items()}
        options.json.write_text(json.dumps({"head": head, "checks": checks}, indent=1) + "\n", encoding="utf-8")
    return 0 if reached == len(figures) and not failed else 1


def _check(name: str, quick: bool) -> Report | dict[str, str]:
    """Make one check and print it; where it cannot be made, the reason stands in its place."""
    module: Any = importlib.import_module(f"selfcheck.{name}")
    settings = module.QUICK if quick else module.Settings()
    start = time.monotonic()
    _say(f"\n{name}: {module.__doc__.splitlines()[0].partition(': ')[2] or module.__doc__.splitlines()[0]}")
    _say(f"  settings: {settings}")
    _say(f"  {stillness()}")
    try:
        report: Report = module.measure(settings)
    except (NotMeasuredError, UsageError) as error:
        _say(f"  not measured: {error}")
        return {"error": str(error)}
    for figure in report.figures:
        _say(f"  {figure.line}")
    for note in report.notes:
        _say(f"    {note}")
    _say(f"  took {time.monotonic() - start:.0f} s, load average afterwards {os.getloadavg()[0]:.2f}")
    return report


def _head(options: argparse.Namespace) -> list[str]:
    machine, environment = Machine.here(), Environment.here()
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    return [
        f"python -m selfcheck {' '.join(options.names)}{' --quick' if options.quick else ''}".rstrip(),
        f"machine: {machine.cpu_model}, {len(environment.affinity)} of {machine.cores} processors, "
        f"{machine.memory_nbytes / 2**30:.0f} GiB; governor {environment.governor or 'not told'}",
        f"software: {environment.operating_system}, python {environment.python}, {versions}",
        f"commit: {environment.commit or 'none'}{', with changes' if environment.dirty else ''}; "
        f"load average at the start {environment.load:.2f}",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m selfcheck", description=__doc__, allow_abbrev=False)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(CHECKS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="too short to mean anything: does every check run?")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where the figures go too")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
