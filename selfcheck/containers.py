"""Containers: what the cpu image costs, and whether a kernel takes as long inside as outside, with podman or docker.

Run as ``python -m selfcheck.containers [BASE]``; the checks of ``python -m selfcheck`` need no engine, and this is none
of them. The image is built first; then a source file is touched and it is built again.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from containers.build import build
from containers.engine import Engine
from containers.run import HARDENING
from containers.variant import ROOT, Variant
from kernels.errors import UsageError
from selfcheck.figure import Figure, at_least, at_most

PAIRS = 5
"""So often each side is measured, by turns and in turned order."""

WORDS = (
    "-m kernels --kernel dense --kernel sincos --framework numpy --framework jax/jit --size M --dtype float32"
    " --rounds 3 --budget 1"
)

HARDENED = (*HARDENING, "--network=none")


def main(arguments: Sequence[str]) -> int:
    """Build, measure and print.

    Args:
        arguments: the base image, or nothing.

    Returns:
        0 where every figure was reached, 1 where one was missed, 2 where there is no engine or no image.
    """
    try:
        engine = Engine.here(runs=True)
        figures = measure(engine, arguments[0] if arguments else "")
    except UsageError as error:
        sys.stderr.write(f"selfcheck: {error}\n")
        return 2
    for figure in figures:
        sys.stdout.write(f"{figure.line}\n")
    return 0 if all(figure.reached for figure in figures) else 1


def measure(engine: Engine, base: str) -> list[Figure]:
    """Measure every figure.

    Args:
        engine: that builds and runs.
        base: the base image; empty takes the Dockerfile's.

    Returns:
        The figures with their bounds.

    Raises:
        UsageError: the image cannot be built or run.
    """
    variant = Variant.of("cpu")
    image = str(build(variant, engine, base)["image"])
    figures = [at_most("cpu core image, unpacked", engine.nbytes(image) / 1e9, 1.2, " GB")]
    source = ROOT / "flows" / "touched.py"
    source.write_text('"""Changes the sources of an image, for as long as its build is timed."""\n', encoding="utf-8")
    try:
        start = time.monotonic()
        build(variant, engine, base)
        figures.append(at_most("rebuild after a change of source only", time.monotonic() - start, 20, " s"))
    finally:
        source.unlink()
    figures.append(at_most("start of the container to the first case measured", first_case_s(engine, image), 8, " s"))
    return figures + ratios(engine, image)


def first_case_s(engine: Engine, image: str) -> float:
    """Time a container from its start until the first turn of its first case is over.

    Args:
        engine: that runs it.
        image: which.

    Returns:
        Seconds, as the progress tells them on a pipe; Prefect's own server is part of them.
    """
    words = "jitmatrix bench --matrix smoke --kernel double --framework numpy --quick"
    start = time.monotonic()
    command = [engine.name, "run", "--rm", *HARDENED, image, *words.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        found = next((time.monotonic() for line in process.stderr if re.search(r"\b1/\d+ turns", line)), None)
        process.stderr.read()
    if found is None or process.returncode not in (0, 1):
        raise UsageError(f"{image} does not run here: {engine.name} ended with status {process.returncode}")
    return found - start


def ratios(engine: Engine, image: str) -> list[Figure]:
    """Compare steady medians inside a container with those outside.

    Args:
        engine: that runs it.
        image: which.

    Returns:
        Two figures for each case: the median over pairs, from below and from above.
    """
    outside = [sys.executable, *WORDS.split()]
    inside = [engine.name, "run", "--rm", *HARDENED, image, "python", *WORDS.split()]
    found: dict[str, list[float]] = {}
    for pair in range(PAIRS):
        sides = {}
        for command in (inside, outside) if pair % 2 else (outside, inside):
            sides[command[0]] = _medians(command)
        for case, nanoseconds in sides[inside[0]].items():
            found.setdefault(case, []).append(nanoseconds / sides[outside[0]][case])
    figures = []
    for case, values in found.items():
        ratio = statistics.median(values)
        what = f"{case}, inside to outside, median of {PAIRS} pairs ({min(values):.3g} to {max(values):.3g})"
        figures += [at_least(what, ratio, 0.97), at_most(what, ratio, 1.03)]
    return figures


def _medians(command: Sequence[str]) -> dict[str, float]:
    """Run cases; gives the median of the rounds' medians of each, in nanoseconds per call."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    medians = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        steady = row["timings"].get("steady")
        if steady:
            rounds = zip(steady["samples"], steady["inner_calls"], strict=True)
            medians[row["case"]["id"]] = statistics.median(statistics.median(each) / calls for each, calls in rounds)
    if not medians:
        raise UsageError(f"{command[0]}: no case was measured: {done.stderr.strip()[-300:]}")
    return medians


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
