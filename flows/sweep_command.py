"""The command `jitmatrix sweep`: a matrix on all of its backends, through a Prefect server and its workers."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from kernels.errors import UsageError

Axis = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]


def sweep(
    *,
    matrix: str | None = None,
    kernel: Axis = None,
    framework: Axis = None,
    size: Axis = None,
    dtype: Axis = None,
    backend: Axis = None,
    results: str | None = None,
    rounds: int | None = None,
    baseline: str | None = None,
    deployment: Axis = None,
    image: Axis = None,
    start_timeout: float = 600.0,
    limit: float = 86400.0,
) -> int:
    """Measure a matrix on all of its backends, each by its deployment of bench; the server is that of PREFECT_API_URL.

    Args:
        matrix: name (`jitmatrix list` shows them); seeds where it is left out.
        kernel: keep this kernel; may be repeated.
        framework: keep this framework (jax) or mode (jax/jit); may be repeated.
        size: keep this size; may be repeated.
        dtype: keep this dtype; may be repeated.
        backend: measure on cpu, gpu or tpu; may be repeated.
        results: root of the results; without it, each worker's own setting counts.
        rounds: fresh processes per case, spread over the run.
        baseline: run to compare with: an id, latest, a day, image:NAME.
        deployment: BACKEND=FLOW/NAME, a deployment instead of bench/BACKEND; may be repeated.
        image: BACKEND=IMAGE, a container image to measure in; may be repeated, for a run in each.
        start_timeout: seconds in which a worker must take a backend's run.
        limit: seconds after which runs that are still going are cancelled.
    """
    from flows import states
    from flows.server import reach, shared
    from flows.sweep import sweep as flow

    if not shared():
        raise UsageError(
            "sweep sends runs to workers: set PREFECT_API_URL to their server, or measure here with jitmatrix bench"
        )
    reach()
    for name, value in (("--start-timeout", start_timeout), ("--limit", limit)):
        if not value > 0:
            raise UsageError(f"{name} {value:g}: it is a number of seconds above 0")
    if rounds is not None and rounds < 1:
        raise UsageError(f"--rounds {rounds}: it is a number of processes, 1 or more")
    images: dict[str, list[str]] = {}
    for each, found in _pairs("--image", image):
        images.setdefault(each, []).append(found)
    state = flow(
        matrix=matrix,
        kernel=kernel or [],
        framework=framework or [],
        size=size or [],
        dtype=dtype or [],
        backend=backend or [],
        results=results,
        rounds=rounds,
        baseline=baseline,
        deployments=dict(_pairs("--deployment", deployment)),
        images=images,
        start_timeout_s=start_timeout,
        limit_s=limit,
        return_state=True,
    )
    line = " ".join((state.message or "").split())
    (sys.stderr if state.name == states.REFUSED else sys.stdout).write(f"jitmatrix: {state.name}: {line}\n")
    return states.exit_status(state)


def _pairs(option: str, values: list[str] | None) -> list[tuple[str, str]]:
    pairs = []
    for value in values or ():
        backend, equals, rest = value.partition("=")
        if not equals or not backend or not rest:
            raise UsageError(f"{option} {value}: write BACKEND=VALUE, such as {option} cpu=...")
        pairs.append((backend, rest))
    return pairs
