"""Measure cases without an orchestrator: ``python -m kernels`` prints one JSON line for each cell of the matrix."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from kernels import doctor, image, matrix_file
from kernels.case import AXES, Backend, Matrix
from kernels.device_lock import Claim
from kernels.errors import UsageError
from kernels.measurement import Measurement
from kernels.progress import Tally, off, reasons
from kernels.run import Run
from kernels.selection import Filters, asked_for, everything, select
from kernels.timing import Sampling

QUICK_ROUNDS = 2

_KERNEL = "a kernel, or yours as path/to/mine.py or package.module:name; repeatable, as the next five"

_EPILOG = """\
One JSON line a measurement goes to standard output, skipped and unavailable ones included; progress goes to standard
error. Without --matrix, every kernel is measured in every framework and mode, at its own sizes and dtypes, on the cpu,
or on the backend of JITMATRIX_BACKEND, which an image sets; the value, and no derivative.

exit status:
  0    something was measured, and nothing failed
  1    a case failed, was wrong, late or killed; or was unavailable and its framework or backend asked for by name (a
       framework that is not installed and was not asked for is reported, and fails nothing); or nothing was measured
  2    what was asked for is not there; nothing is written
  130  Ctrl-C; what was measured until then is written
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: an error is one line."""
        raise UsageError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: of the command line; None takes those of the process.

    Returns:
        The exit status.
    """
    try:
        options = _parser().parse_args(arguments)
        axes = {axis: tuple(options.__dict__[axis]) for axis in AXES}
        filters = Filters(**{**axes, "backend": image.chosen(options.backend)})
        matrix = matrix_file.read(options.matrix) if options.matrix else everything()
        plan = select(matrix, filters)
        run = Run(plan, _sampling(options, matrix))
        given = sys.argv[1:] if arguments is None else arguments
        claim = Claim(shlex.join(["python", "-m", "kernels", *given]), _say)
        with _output(options.output) as file:
            return _measure(run, filters, len(plan.cases) + len(plan.skips), file, claim)
    except UsageError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads has gone, as head does. The interpreter would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _measure(run: Run, filters: Filters, planned: int, file: IO[str], claim: Claim) -> int:
    tally = Tally(planned, lambda row: asked_for(row, filters))

    def take(row: Measurement) -> None:
        file.write(json.dumps(row.to_json(), allow_nan=False) + "\n")
        file.flush()
        tally.add(row)

    def finished(row: Measurement) -> None:
        take(row)
        _say(tally.line(row))

    warning = off(doctor.quick(), "python -m kernels.doctor")
    if warning:
        _say(warning)
    for row in run.settled:
        take(row)
    for line in reasons(run.settled):
        _say(line)
    try:
        run.measure(finished, claim=claim)
    except KeyboardInterrupt:
        run.leave(take, "the run was interrupted before this case was measured")
        _say(f"interrupted: {tally.closing()}")
        return 130
    for note in run.notes:
        _say(note)
    _say(tally.closing())
    return 0 if tally.all_well else 1


def _sampling(options: argparse.Namespace, matrix: Matrix) -> Sampling:
    given = {
        "rounds": QUICK_ROUNDS if options.quick else options.rounds,
        "budget_s": options.budget,
        "timeout_s": options.timeout,
        "seed": options.seed,
        "cold": options.cold or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    Sampling.from_mapping(matrix.sampling, f"matrix {matrix.name}")
    return Sampling.from_mapping({**matrix.sampling, **chosen}, "command line")


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--output {path}: cannot be written ({error.strerror}); name a file in a folder of yours"
        ) from None
    with file:
        yield file


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m kernels",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    repeated: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--kernel", metavar="NAME", help=_KERNEL, **repeated)
    parser.add_argument("--framework", metavar="NAME[/MODE]", help="such as jax or jax/jit", **repeated)
    parser.add_argument("--size", metavar="LABEL", help="such as S, M or L", **repeated)
    parser.add_argument("--dtype", metavar="NAME", help="such as float32", **repeated)
    backends = ", ".join(backend.value for backend in Backend)
    parser.add_argument("--backend", metavar="NAME", help=f"{backends}; in place of the matrix's own", **repeated)
    orders = "0 the value, 1 the gradient, 2 a Hessian-vector product; in place of the matrix's own"
    parser.add_argument("--derivative", metavar="ORDER", type=int, help=orders, **repeated)
    parser.add_argument("--matrix", metavar="FILE.toml", type=Path, help="the matrix that the filters narrow")
    rounds = parser.add_mutually_exclusive_group()
    rounds.add_argument("--rounds", metavar="N", type=int, help="fresh processes a case (default 5)")
    rounds.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--budget", metavar="SECONDS", type=float, help="of steady sampling a case (default 1)")
    parser.add_argument("--cold", action="store_true", help="inputs rotate through more than the caches hold")
    parser.add_argument("--seed", metavar="N", type=int, help="of inputs and order (default 0)")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="deadline of one process (default 120)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where the lines go instead of standard output")
    return parser


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"jitmatrix: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
