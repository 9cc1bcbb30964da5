"""Check a machine's GPU: JAX's kernels measured on it with every guard and output check, as one table.

Run as ``make gpu-check`` or ``python -m kernels.gpu_check [FILE]``; it needs NumPy and JAX, and no orchestrator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels import doctor
from kernels.assignment import Assignment, Role
from kernels.case import Backend, Case, Plan
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.guards import Flag
from kernels.isolation import Isolation
from kernels.measurement import Measurement, Status
from kernels.phase import Phase
from kernels.progress import Tally, duration, flags, off
from kernels.run import Run
from kernels.selection import Filters, everything, select, unavailable_reason
from kernels.timing import Sampling

LIMIT_S = 400.0
"""No case is begun later than this, so that all is over within eight minutes."""

SAMPLING = Sampling(rounds=1, budget_s=0.3, timeout_s=50.0)

ROWS = Path("results/gpu-check.jsonl")

DISTURBED = {Flag.NOISY.value, Flag.CONTENDED.value, Flag.THROTTLED.value}

HEADINGS = ("case", "status", "compile", "first call", "steady", "device", "busy", "roofline", "flags")


def main(arguments: Sequence[str]) -> int:
    """Run the check.

    Args:
        arguments: the file for the rows, or nothing.

    Returns:
        0 every row is sound, 1 one is not or was not reached, 2 there is no GPU that JAX can use.
    """
    try:
        if len(arguments) > 1:
            raise UsageError(f"give one file for the rows, or none for {ROWS}")
        file = Path(arguments[0]) if arguments else ROWS
        plan = largest(select(everything(), Filters(framework=("jax",), backend=(Backend.GPU.value,))))
        probe(plan.cases[0])
        warning = off(doctor.quick(), "python -m kernels.doctor")
        if warning:
            sys.stderr.write(f"jitmatrix: {warning}\n")
        return check(plan, file)
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def largest(plan: Plan) -> Plan:
    """Keep the largest size of each kernel: at the small ones a GPU times its own launches.

    Args:
        plan: cases and skips.

    Returns:
        The cases of the largest sizes; the skips are those of other sizes and frameworks, and left out.
    """
    last = {name: list(kernel.sizes)[-1] for name, kernel in suite().items()}
    return Plan(tuple(case for case in plan.cases if case.size == last[case.kernel]), ())


def probe(case: Case) -> None:
    """Call one kernel on the device, before anything else is begun.

    Args:
        case: on the gpu backend.

    Raises:
        UsageError: the device or the framework is not there.
    """
    reason = unavailable_reason(case)
    if reason is None:
        with Isolation() as isolation:
            outcome = isolation.run(Assignment(case, Role.FIRST_CALL, SAMPLING))
        reason = outcome.reason if outcome.status is Status.UNAVAILABLE else None
    if reason is not None:
        raise UsageError(f"no GPU to check: {reason}")


def table(rows: Sequence[Measurement]) -> str:
    """Draw the rows as text.

    Args:
        rows: one a case.

    Returns:
        Lines of equal columns; a dash stands where a phase is absent, and a line below a row for what is wrong.
    """
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    for position, row in reversed(list(enumerate(rows, start=1))):
        notes = [row.reason, row.facts.get("device_absent"), *row.flags.values()]
        notes += [reason for timing in row.timings.values() for reason in timing.flags.values()]
        lines[position + 1 : position + 1] = [f"    {note}" for note in dict.fromkeys(notes) if note]
    return "\n".join(lines)


def sound(row: Measurement) -> bool:
    """Tell whether a row is what a GPU that works gives.

    Args:
        row: of any status.

    Returns:
        True where it is ok, its device time was read where the backend has one, and no flag says that it is not what
        it claims; what only disturbs a timing (noise, contention, heat) is no fault of the device.
    """
    read = Phase.DEVICE not in row.planned or Phase.DEVICE in row.timings
    return row.status is Status.OK and read and not set(flags(row)) - DISTURBED


def check(plan: Plan, file: Path, sampling: Sampling = SAMPLING) -> int:
    """Measure a plan, write its rows, and print the table.

    Args:
        plan: what to measure.
        file: for the rows; its folder is made.
        sampling: how every case is sampled.

    Returns:
        The exit status, as that of ``main``.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror}); name another file") from None
    run = Run(plan, sampling)
    tally = Tally(len(plan.cases), lambda _: True)
    rows: list[Measurement] = []
    with lines:

        def take(row: Measurement) -> None:
            lines.write(json.dumps(row.to_json(), allow_nan=False) + "\n")
            lines.flush()
            rows.append(row)
            tally.add(row)
            sys.stderr.write(f"jitmatrix: {tally.line(row)}\n")

        interrupted = False
        try:
            run.measure(take, LIMIT_S)
        except KeyboardInterrupt:
            interrupted = True
        run.leave(take, "the check's time was over before this case" if not interrupted else "interrupted")
    sys.stdout.write(f"{table(sorted(rows, key=lambda row: row.case.id))}\n\n{tally.closing()}\nrows: {file}\n")
    if interrupted:
        return 130
    unsound = [row.case.id for row in rows if not sound(row)]
    if unsound:
        sys.stdout.write(f"not sound: {', '.join(unsound)}\n")
    return 0 if rows and not unsound else 1


def _cells(row: Measurement) -> tuple[str, ...]:
    def timed(phase: Phase) -> str:
        return duration(row.timings[phase].median_ns) if phase in row.timings else "-"

    share = row.facts.get("roofline_share")
    busy = "-"
    if Phase.DEVICE in row.timings and Phase.STEADY in row.timings:
        busy = f"{row.timings[Phase.DEVICE].median_ns / row.timings[Phase.STEADY].median_ns:.0%}"
    return (
        row.case.id,
        row.status.value,
        timed(Phase.COMPILE),
        timed(Phase.FIRST_CALL),
        timed(Phase.STEADY),
        timed(Phase.DEVICE),
        busy,
        f"{share:.1%}" if share is not None else "-",
        ",".join(flags(row)) or "-",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
