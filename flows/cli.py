"""The `jitmatrix` command: a thin face over the flows."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.compare_command import compare
from flows.deploy_command import deploy
from flows.history_command import history
from flows.query_command import query
from flows.report_command import report
from flows.show_command import show
from flows.sweep_command import sweep
from flows.upkeep_commands import compact, verify
from kernels import devices, doctor, image, starting
from kernels.case import Backend
from kernels.discovery import suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks, modes
from kernels.selection import Filters
from kernels.timing import GATE_ROUNDS

STARTED = time.monotonic()

app = App(
    name="jitmatrix",
    help="What JIT compilation costs and buys, on this machine.",
    version_flags=["--version"],
    result_action="return_value",
)
app.command(query)
app.command(report)
app.command(show)
app.command(compare)
app.command(history)
app.command(compact)
app.command(sweep)
app.command(verify)
app.command(deploy)

Flag = Annotated[bool, Parameter(negative="")]
Axis = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]


@app.command
def bench(
    *,
    matrix: str | None = None,
    kernel: Axis = None,
    framework: Axis = None,
    size: Axis = None,
    dtype: Axis = None,
    backend: Axis = None,
    derivative: Annotated[list[int] | None, Parameter(negative="", consume_multiple=False)] = None,
    results: str | None = None,
    rounds: int | None = None,
    budget: float | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    min_sample: float | None = None,
    quick: Flag = False,
    gate: Flag = False,
    cold: Flag = False,
    workers: int | None = None,
    programs: Flag = False,
    resume: str | None = None,
    profile: Flag = False,
) -> int:
    """Measure a matrix on this machine; print the table, and where the Parquet files are.

    Args:
        matrix: name (`jitmatrix list` shows them) or path of a .toml file; seeds, or all where one of yours is named.
        kernel: keep this kernel, or measure one of yours: path/to/mine.py or package.module:name; may be repeated.
        framework: keep this framework (jax) or mode (jax/jit); may be repeated.
        size: keep this size; may be repeated.
        dtype: keep this dtype; may be repeated.
        backend: measure on cpu, gpu or tpu; may be repeated. JITMATRIX_BACKEND, else the matrix's own.
        derivative: measure the value (0), the gradient (1) or a Hessian-vector product (2); may be repeated.
        results: root of the results, a folder or s3://bucket/prefix; JITMATRIX_RESULTS, else results.
        rounds: fresh processes per case, spread over the run.
        budget: seconds of steady sampling per case, over all rounds.
        seed: seed of the inputs, the order of cases and the bootstrap.
        timeout: deadline of one process, in seconds.
        min_sample: milliseconds that a sample lasts at least, by doubling its calls.
        quick: 2 rounds: a look, not a comparison.
        gate: 21 rounds of samples of 100 ms: to decide on with `jitmatrix compare`, as in continuous integration.
        cold: rotate the inputs of steady calls through a working set beyond the last-level cache.
        workers: cases side by side, one thread each, pinned to a core of its own.
        programs: keep the text of every compiled program, under hlo/ by its hash.
        resume: go on with the run of this id, which was killed or interrupted, as it was begun.
        profile: also print what the run spent its time on.
    """
    given = [name for name, value in locals().items() if value and name not in ("resume", "results", "profile")]
    if resume is not None:
        if given:
            raise UsageError(f"--resume goes on with a run as it was begun; leave out --{given[0].replace('_', '-')}")
        return _orchestrated({"resume": resume, "results": results}, profile)
    from flows.order import Order
    from flows.settings import settings

    filters = Filters(
        kernel=tuple(kernel or ()),
        framework=tuple(framework or ()),
        size=tuple(size or ()),
        dtype=tuple(dtype or ()),
        backend=image.chosen(backend or ()),
        derivative=tuple(derivative or ()),
    )
    if sum((quick, gate, rounds is not None)) > 1:
        raise UsageError("--quick, --gate and --rounds all set the number of rounds; give one of them")
    rounds = 2 if quick else GATE_ROUNDS if gate else rounds
    sampling = {
        "rounds": rounds,
        "budget_s": budget,
        "seed": seed,
        "timeout_s": timeout,
        "min_sample_ms": 100.0 if gate else min_sample,
        "cold": cold or None,
    }
    root = results or settings().results
    order = Order.of(matrix, filters, sampling, root, workers=workers, programs=programs)
    return _orchestrated(order.parameters(), profile)


@app.command
def upload(*, results: str | None = None) -> int:
    """Send results that wait in the spool to the storage that they are for; exit status 1 when some still wait.

    Args:
        results: the root, such as s3://bucket/prefix; without it, every root that something waits for.
    """
    from flows.spool import spool, spools
    from flows.storage import root
    from flows.upload import upload as send

    waiting = [spool(root(results))] if results else [each for each in spools() if each.pending()]
    console, complete = terminal(), True
    for each in waiting:
        sent = send(each, root(each.target))
        console.print(str(sent), markup=False, highlight=False, soft_wrap=True)
        complete = complete and sent.complete
    if not waiting:
        console.print("nothing waits to be sent")
    return 0 if complete else 1


@app.command(name="doctor")
def doctor_() -> int:
    """Say what falsifies timings on this machine, and how to mend it; exit status 1 when something is off."""
    checks = doctor.examine(frameworks(), [backend for backend in Backend if devices.present(backend)])
    table = Table("", "check", "found", "how to mend it", box=None, header_style="bold")
    for check in checks:
        verdict = "[green]ok[/green]" if check.ok else "[red]off[/red]"
        table.add_row(verdict, check.name, escape(check.found), escape(check.mend or ""))
    terminal().print(table)
    return 0 if all(check.ok for check in checks) else 1


@app.command(name="new-kernel")
def new_kernel(name: str, *, to: Path = Path()) -> int:
    """Write a starting file for a kernel of your own; it runs at once, and its comments say what to change.

    Args:
        name: the kernel's name, such as jacobi2d.
        to: the folder for NAME.py, or the file; nothing is overwritten.
    """
    file = starting.write(name, to)
    command = f"jitmatrix bench --kernel {shlex.quote(starting.reference(file))} --size S --dtype float32 --quick"
    terminal().print(f"{file}: written; measure it: {command}", markup=False, highlight=False, soft_wrap=True)
    return 0


@app.command(name="list")
def list_() -> int:
    """Show kernels with their sizes, frameworks installed or missing, and matrices."""
    from flows.order import load, names

    console = terminal()
    table = Table("kernel", "computes", "sizes", "dtypes", "own forms", box=None, header_style="bold")
    for kernel in suite().values():
        sizes = "; ".join(f"{label}: {_dims(dims)}" for label, dims in kernel.sizes.items())
        table.add_row(
            kernel.name, escape(kernel.summary), sizes, " ".join(kernel.dtypes), " ".join(kernel.implementations)
        )
    console.print(table)
    table = Table("framework", "modes", "version", "install", box=None, header_style="bold")
    for name, adapter in frameworks().items():
        versions = " ".join(f"{k} {v}" for k, v in adapter.versions().items())
        there = adapter.installed()
        install = "" if there else image.advice(adapter.INSTALL)
        table.add_row(name, " ".join(adapter.MODES), versions if there else "missing", install)
    console.print(table)
    table = Table("matrix", "cells", "kernels", box=None, header_style="bold")
    for name in names():
        matrix = load(name)
        plan = matrix.expand(suite(), modes())
        table.add_row(name, f"{len(plan.cases)} cases, {len(plan.skips)} skips", " ".join(matrix.kernels))
    console.print(table)
    return 0


def main() -> None:
    """Run the command; what a user typed wrong gets one line and exit status 2."""
    try:
        status = app(print_error=False, exit_on_error=False)
    except CycloptsError as error:
        text = " ".join(str(error).split())
        if isinstance(error, UnusedCliTokensError):
            text = f"nothing takes {' '.join(error.unused_tokens or ())}"
        command = " ".join(["jitmatrix", *(error.command_chain or ())])
        sys.stderr.write(f"jitmatrix: {text} ({command} --help has what there is)\n")
        status = 2
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {' '.join(str(error).split())}\n")
        status = 2
    except KeyboardInterrupt as interruption:
        status = _status(interruption)
    sys.exit(status if isinstance(status, int) else 0)


def terminal() -> Console:
    """Open standard output; where it is no terminal, lines are not cut to the width of one.

    Returns:
        The console.
    """
    return Console() if sys.stdout.isatty() else Console(width=200)


def _orchestrated(parameters: Mapping[str, object], profiled: bool) -> int:
    """Run the flow `bench` on a Prefect server that is there, or on one of its own."""
    # What a task would log as an error, a case that is not ok, has a line of its own; Prefect's notices have no reader.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    from flows.server import ensured

    with ensured() as answers:
        return _run(parameters, profiled, answers)


def _run(parameters: Mapping[str, object], profiled: bool, answers: Callable[[], None]) -> int:
    from flows import states
    from flows.bench import bench as flow
    from flows.closing import closing, profile
    from flows.progress import CURRENT, BarReporter, LineReporter

    console = terminal()
    reporter = BarReporter(console) if console.is_terminal else LineReporter(Console(stderr=True))
    CURRENT.set(reporter)
    interrupted, message, status = 0, "", 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with reporter:
        try:
            answers()
            state = flow(**parameters, return_state=True)
            message, status = state.message or "", states.exit_status(state)
        except KeyboardInterrupt as interruption:
            interrupted = _status(interruption)
    summary = reporter.summary
    if summary is None or not (summary.run.complete or interrupted):
        sys.stderr.write(f"jitmatrix: {' '.join(message.split()) or 'interrupted'}\n")
    if summary is None:
        return interrupted or status
    for line in closing(summary, console.width):
        console.print(line, highlight=False, soft_wrap=isinstance(line, str))
    for line in profile(summary, STARTED) if profiled else ():
        console.print(line, markup=False, highlight=False)
    return interrupted or status


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def _status(interruption: KeyboardInterrupt) -> int:
    """Give the exit status of an interruption as shells do: 128 and the signal's number, Ctrl-C where it has none."""
    return 128 + int(interruption.args[0] if interruption.args else signal.SIGINT)


def _dims(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in dims.items())


if __name__ == "__main__":
    main()
