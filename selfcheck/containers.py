"""Containers: what the cpu image costs, and whether a kernel takes as long inside as outside, with podman or docker.

Run as ``python -m selfcheck.containers [FIGURE ...] [--base NAME] [--pairs N]``; the checks of ``python -m selfcheck``
need no engine, and this is none of them. The image is built first, as far as it is not there. Figures: ``size`` of the
image; ``rebuild``, for which a source file is added; ``start`` of a container, with a Prefect server that runs, as a
worker has it, and with one of its own; ``ratio`` of steady medians inside to outside, by turns: the geometric mean over
pairs, with the 95 % interval that Student's t gives their logarithms.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from containers.build import build
from containers.engine import Engine
from containers.run import HARDENING
from containers.variant import Variant
from kernels.errors import UsageError, unknown
from kernels.statistics import Estimate
from kernels.variables import ROOT
from selfcheck.figure import Figure, at_least, at_most
from selfcheck.prefect_server import PrefectServer

FIGURES = ("size", "rebuild", "start", "ratio")

PAIRS = 10
"""So often each side is measured, by turns and in turned order."""

WORDS = (
    "-m kernels --kernel dense --kernel sincos --framework numpy --framework jax/jit --size M --dtype float32"
    " --rounds 3 --budget 1"
)

STARTS = 5
"""So often each start is timed, by turns; the median is told."""

OFFLINE = "--network=none"

_VERSIONS = (
    "import importlib.metadata as found, platform; print('Python', platform.python_version(), "
    "*(f'{name} {found.version(name)}' for name in ('numpy', 'jax', 'jaxlib')))"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, measure and print.

    Args:
        arguments: of the command line; None takes those of the process.

    Returns:
        0 where every figure was reached, 1 where one was missed, 2 where there is no engine or no image.
    """
    parser = argparse.ArgumentParser(prog="python -m selfcheck.containers", allow_abbrev=False)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"{', '.join(FIGURES)}; all where none is named")
    parser.add_argument("--base", default="", help="a base image other than the Dockerfile's")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of the ratio, two or more")
    options = parser.parse_args(arguments)
    try:
        for name in options.figures:
            if name not in FIGURES:
                raise unknown("figure", name, FIGURES, "selfcheck.containers")
        if options.pairs < 2:
            raise UsageError(f"--pairs {options.pairs}: give 2 or more; one pair has no interval")
        figures = measure(Engine.here(runs=True), options.figures or FIGURES, options.base, options.pairs)
    except UsageError as error:
        sys.stderr.write(f"selfcheck: {error}\n")
        return 2
    for figure in figures:
        sys.stdout.write(f"{figure.line}\n")
    return 0 if all(figure.reached for figure in figures) else 1


def measure(engine: Engine, names: Sequence[str], base: str, pairs: int) -> list[Figure]:
    """Measure figures.

    Args:
        engine: that builds and runs.
        names: of ``FIGURES``.
        base: the base image; empty takes the Dockerfile's.
        pairs: of the ratio.

    Returns:
        The figures with their bounds.

    Raises:
        UsageError: the image cannot be built or run.
    """
    variant = Variant.of("cpu")
    image = str(build(variant, engine, base)["image"])
    figures = []
    if "size" in names:
        figures.append(at_most("cpu core image, unpacked", engine.nbytes(image) / 1e9, 1.2, " GB"))
    if "rebuild" in names:
        figures.append(at_most("rebuild after a change of source only", rebuilt_s(variant, engine, base), 20, " s"))
    if "start" in names:
        figures += starts(engine, image)
    return figures + (ratios(engine, image, pairs) if "ratio" in names else [])


def rebuilt_s(variant: Variant, engine: Engine, base: str) -> float:
    """Time a build after a change of the sources, description and bill of materials included.

    Args:
        variant: that was built before.
        engine: that builds.
        base: the base image; empty takes the Dockerfile's.

    Returns:
        Seconds.
    """
    source = ROOT / "flows" / "touched.py"
    # Of other content each time: what was built once is taken from the engine's cache.
    source.write_text(f'"""Changes the sources of an image, for as long as its build is timed: {time.time()}."""\n')
    try:
        start = time.monotonic()
        build(variant, engine, base)
        return time.monotonic() - start
    finally:
        source.unlink()


def starts(engine: Engine, image: str) -> list[Figure]:
    """Time containers from their start to the first case, where a Prefect server runs and where each starts its own.

    Args:
        engine: that runs them.
        image: which.

    Returns:
        A figure for each of the two.
    """
    taken: dict[str, list[float]] = {"a server that runs": [], "a server of its own": []}
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as folder:
        server = PrefectServer(Path(folder))
        server.start()
        try:
            there = ("--network=host", f"--env=PREFECT_API_URL={server.url}")
            for _ in range(STARTS):
                for seconds, options in zip(taken.values(), (there, (OFFLINE,)), strict=True):
                    seconds.append(first_case_s(engine, image, options))
        finally:
            server.stop()
    return [
        at_most(
            f"start of a container to the first case measured, {name} ({min(seconds):.1f} to {max(seconds):.1f})",
            statistics.median(seconds), 8, " s",
        )
        for name, seconds in taken.items()
    ]  # fmt: skip


def first_case_s(engine: Engine, image: str, options: Sequence[str]) -> float:
    """Time a container from its start until the first turn of its first case is over.

    Args:
        engine: that runs it.
        image: which.
        options: of the engine besides those of every container.

    Returns:
        Seconds, as the progress tells them on a pipe.

    Raises:
        UsageError: the image does not run here.
    """
    words = "jitmatrix bench --matrix smoke --kernel double --framework numpy --quick"
    start = time.monotonic()
    command = [engine.name, "run", "--rm", *HARDENING, *options, image, *words.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        found = next((time.monotonic() for line in process.stderr if re.search(r"\b1/\d+ turns", line)), None)
        process.stderr.read()
    if found is None or process.returncode not in (0, 1):
        raise UsageError(f"{image} does not run here: {engine.name} ended with status {process.returncode}")
    return found - start


def ratios(engine: Engine, image: str, pairs: int) -> list[Figure]:
    """Compare steady medians inside a container with those outside.

    Args:
        engine: that runs it.
        image: which.
        pairs: how often each side is measured.

    Returns:
        Two figures for each case: the ratio, from below and from above.
    """
    outside = [sys.executable]
    inside = [engine.name, "run", "--rm", *HARDENING, OFFLINE, image, "python"]
    for side, command in (("outside", outside), ("inside", inside)):
        told = subprocess.run([*command, "-c", _VERSIONS], cwd=ROOT, capture_output=True, text=True, check=False)
        sys.stdout.write(f"{side}: {told.stdout.strip()}\n")
    found: dict[str, list[float]] = {}
    for pair in range(pairs):
        sides = {}
        for command in (inside, outside) if pair % 2 else (outside, inside):
            sides[command[0]] = _medians([*command, *WORDS.split()])
        one, other = sides[inside[0]], sides[outside[0]]
        for case in one.keys() & other.keys():
            found.setdefault(case, []).append(one[case] / other[case])
    figures = []
    if not any(len(values) > 1 for values in found.values()):
        raise UsageError(
            f"{image}: no case was timed inside and outside in two pairs or more; jitmatrix doctor says why"
        )
    for case, values in sorted(found.items()):
        if len(values) < 2:
            continue
        ratio = paired(values)
        what = f"{case}, inside to outside ({ratio.low:.3f} to {ratio.high:.3f}, {len(values)} pairs)"
        figures += [at_least(what, ratio.value, 0.97), at_most(what, ratio.value, 1.03)]
    return figures


def paired(values: Sequence[float]) -> Estimate:
    """Estimate a ratio from those of pairs.

    Args:
        values: ratios, two or more.

    Returns:
        Their geometric mean, with the 95 % interval that Student's t gives the mean of their logarithms.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    logarithms = np.log(values)
    centre, count = logarithms.mean(), logarithms.size
    away = stdtrit(count - 1, 0.975) * logarithms.std(ddof=1) / np.sqrt(count)
    return Estimate(*(float(np.exp(x)) for x in (centre, centre - away, centre + away)))


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
    sys.exit(main())
