"""Orchestration: what Prefect and Parquet add to a run, beside the same cases through `python -m kernels` alone."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from flows.durable import publish_new
from flows.order import Order
from flows.plan import divide
from flows.storage import LocalRoot
from kernels.case import Matrix
from kernels.discovery import describe
from kernels.frameworks import modes
from kernels.selection import Filters
from kernels.timing import Sampling
from kernels.variables import ROOT
from selfcheck.figure import Figure, Report, at_least, at_most
from selfcheck.interleaved import NotMeasuredError
from selfcheck.own import trivial
from selfcheck.prefect_server import PrefectServer
from selfcheck.watched import Watched, watch

_TRIVIAL = """\
title = "as many cases as there are sizes, each as short as can be"
kernels = "all"
frameworks = ["numpy/eager"]
sizes = {sizes}
dtypes = ["float32"]
[sampling]
rounds = 1
budget_s = 0.001
min_sample_ms = 0.01
warmup_ms = 0.0
warmup_calls = 1
"""

_REAL = """\
title = "real kernels"
kernels = {kernels}
frameworks = ["numpy/eager", "numba/njit", "jax/eager", "jax/jit"]
sizes = ["S"]
dtypes = ["float32"]
[sampling]
rounds = {rounds}
budget_s = {budget_s}
"""

_FLOW = """\
import json, sys
from flows.bench import bench
from flows.states import exit_status
sys.exit(exit_status(bench(**json.loads(sys.argv[1]), return_state=True)))
"""
"""Runs the flow as a worker's process does: what it says goes to the server's log and to standard error."""

_DONE = {"kernels": r" \d+/\d+  ", "flow": r"\d+ of \d+ cases done$"}
"""The line of each case that is done."""

_FIRST = r"1/\d+ turns"


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        cases: trivial ones, at most a thousand.
        kernels: of the suite, for real cases; empty takes all.
        rounds: of real cases,
        budget_s: with this much steady sampling each, in seconds.
        pairs: times that trivial ones are measured beside their peer, by turns; real ones once.
        starts: times that a flow is started, and a plan made.
        planned: cases of the plan.
    """

    cases: int = trivial.SIZES
    kernels: tuple[str, ...] = ()
    rounds: int = 2
    budget_s: float = 0.3
    pairs: int = 2
    starts: int = 3
    planned: int = 100_000


QUICK = Settings(cases=10, kernels=("double",), budget_s=0.01, pairs=1, starts=1, planned=2000)


def measure(settings: Settings) -> Report:
    """Run trivial and real cases through the flow and through ``python -m kernels``, by turns.

    Args:
        settings: how much.

    Returns:
        Times a case and at the end, throughput, start, memory, and the time of a large plan.

    Raises:
        NotMeasuredError: the Prefect server does not start, or a run did not end well.
    """
    figures, notes = list[Figure](), list[str]()
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as name:
        folder = Path(name)
        server = PrefectServer(folder / "prefect")
        try:
            server.start()
        except (OSError, RuntimeError) as error:
            raise NotMeasuredError(f"Prefect's server does not start: {' '.join(str(error).split())[-200:]}") from None
        try:
            for part in (_started, _trivial, _real):
                found, said = part(folder, server, settings)
                figures += found
                notes += said
        finally:
            server.stop()
        found, said = _planned(folder, settings)
        figures += found
        notes += said
    return Report(tuple(figures), tuple(notes))


Found = tuple[list[Figure], list[str]]


def _started(folder: Path, server: PrefectServer, settings: Settings) -> Found:
    """Start a flow, with a server of its own and with one that runs, until its first case begins."""
    short = ["--matrix", "smoke", "--kernel", "double", "--framework", "numpy", "--quick", "--budget", "0.01"]
    # A home of its own: the first start makes its database, as installing does.
    own = {**server.variables, "PREFECT_HOME": str(folder / "own"), "PREFECT_API_URL": ""}
    watch([sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"], ROOT, own)
    embedded, beside = list[float](), list[float]()
    for _ in range(settings.starts):
        command = [sys.executable, "-m", "flows.cli", "bench", *short, "--results", str(folder / "started")]
        embedded.append(watch(command, ROOT, own).matching(_FIRST)[0].after_s)
        parameters = {"matrix": "smoke", "kernel": ["double"], "framework": ["numpy"], "rounds": 2, "budget_s": 0.01}
        beside.append(_flow(parameters, folder / "started", server).matching(_FIRST)[0].after_s)
    return [
        at_most("flow start to first case, with a server of its own", median(embedded), 10, " s"),
        at_most("flow start to first case, with a server that runs", median(beside), 4, " s"),
    ], []


def _trivial(folder: Path, server: PrefectServer, settings: Settings) -> Found:
    """Run trivial cases both ways."""
    file, source = folder / "trivial.toml", trivial.__file__
    file.write_text(_TRIVIAL.format(sizes=json.dumps(list(trivial.KERNEL.sizes)[: settings.cases])), encoding="utf-8")
    ours, bare = _both(folder, server, {"matrix": str(file), "kernel": [source]}, settings.pairs)
    each = {"flow": [_each_s(run, "flow") for run in ours], "kernels": [_each_s(run, "kernels") for run in bare]}
    added = [1e3 * (one - other) for one, other in zip(each["flow"], each["kernels"], strict=True)]
    ends = [run.wall_s - run.matching(_DONE["flow"])[-1].after_s for run in ours]
    # Of the last run, as of any: a tenth of the cases are done, and all.
    done = ours[-1].matching(_DONE["flow"])
    early, late = done[settings.cases // 10 - 1].nbytes, done[-1].nbytes
    what = f"{settings.cases} trivial cases"
    return [
        at_most(f"{what}: what Prefect and Parquet add to a case", median(added), 15, " ms"),
        at_most(f"{what}: from the last case to the end of the process", median(ends), 10, " s"),
        at_most(
            f"{what}: resident size of the flow's process after all over that after {settings.cases // 10}",
            late / early,
            1.2,
        ),
    ], [
        f"a trivial case: {1e3 * median(each['flow']):.1f} ms through the flow, "
        f"{1e3 * median(each['kernels']):.1f} ms through python -m kernels; by pairs {_listed(added)} ms more",
        f"the flow's process after {settings.cases // 10} cases: {early >> 20} MiB, after all {late >> 20}",
    ]


def _real(folder: Path, server: PrefectServer, settings: Settings) -> Found:
    """Run real cases both ways, from the start of the process to its end."""
    file = folder / "real.toml"
    kernels = json.dumps(list(settings.kernels) or "all")
    file.write_text(_REAL.format(kernels=kernels, rounds=settings.rounds, budget_s=settings.budget_s), encoding="utf-8")
    ours, bare = _both(folder, server, {"matrix": str(file)}, 1)
    count = len(bare[0].matching(_DONE["kernels"]))
    if len(ours[0].matching(_DONE["flow"])) != count:
        raise NotMeasuredError("the flow did not measure as many cases as python -m kernels")
    walls = {"flow": [run.wall_s for run in ours], "kernels": [run.wall_s for run in bare]}
    shares = [100 * other / one for one, other in zip(walls["flow"], walls["kernels"], strict=True)]
    return [
        at_least(
            f"throughput of the flow on {count} real cases over that of python -m kernels", median(shares), 85, " %"
        )
    ], [
        f"{count} real cases: {median(walls['flow']):.1f} s through the flow, "
        f"{median(walls['kernels']):.1f} s through python -m kernels"
    ]


def _planned(folder: Path, settings: Settings) -> Found:
    """Expand, hash and store a plan of many cells, as a sweep does before it sends anything."""
    source, modes_of = "selfcheck.planned", ("numpy/eager", "jax/jit")
    count = max(1, settings.planned // len(trivial.KERNEL.sizes) // len(modes_of))
    kernels = {name: replace(trivial.KERNEL, name=name) for name in (f"trivial{number}" for number in range(count))}
    describe(source, kernels)
    took = list[float]()
    for number in range(settings.starts):
        start = time.perf_counter()
        matrix = Matrix("selfcheck", tuple(kernels), modes_of, (), ("float32",))
        plan = matrix.expand(kernels, modes(), dict.fromkeys(kernels, (source, "0" * 64)))
        root = LocalRoot(folder / f"plans{number}")
        planned = divide(Order("selfcheck", matrix, Filters(), plan, Sampling(), root))
        publish_new(root.path / planned.key, planned.content())
        took.append(time.perf_counter() - start)
    what = f"a plan of {len(plan.cases)} cases expanded, hashed and stored"
    return [at_most(what, median(took), 5, " s")], [f"the plan's file: {len(planned.content()) / 1e6:.1f} MB"]


def _both(
    folder: Path, server: PrefectServer, parameters: Mapping[str, Any], pairs: int
) -> tuple[list[Watched], list[Watched]]:
    """Run a matrix through the flow and through ``python -m kernels``, by turns."""
    ours, bare = list[Watched](), list[Watched]()
    command = [
        sys.executable,
        "-m",
        "kernels",
        "--matrix",
        parameters["matrix"],
        "--output",
        str(folder / "lines.jsonl"),
    ]
    for kernel in parameters.get("kernel", []):
        command += ["--kernel", kernel]
    for _ in range(pairs):
        bare.append(watch(command, ROOT, {}))
        ours.append(_flow(parameters, folder / "results", server))
    return ours, bare


def _flow(parameters: Mapping[str, Any], results: Path, server: PrefectServer) -> Watched:
    command = [sys.executable, "-c", _FLOW, json.dumps({**parameters, "results": str(results)})]
    return watch(command, ROOT, server.variables)


def _each_s(run: Watched, way: str) -> float:
    """Give seconds a case, from the end of the first to the end of the last."""
    done = run.matching(_DONE[way])
    return (done[-1].after_s - done[0].after_s) / (len(done) - 1)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)
