"""The flow `sweep`: one plan for all backends, each backend's share sent to its deployment of `bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas.objects import State
from pydantic import Field

from flows import dispatch, events, pages, plan, states, untaken
from flows.artifacts import Publisher
from flows.bench import Names, Orders
from flows.deployment import settle
from flows.dispatch import Errand, Sent
from flows.durable import publish_new
from flows.exact import exact
from flows.following import follow, recall
from flows.order import InlineMatrix, Order
from flows.plan import Planned
from flows.references import resolve
from flows.results import uuid7
from flows.shares import compared_with, shares_of, state_of
from flows.spool import spool
from flows.storage import LocalRoot, Root, StorageError
from flows.upload import upload
from kernels.case import Backend
from kernels.case import backend as backend_named
from kernels.errors import UsageError

START_TIMEOUT_S = 600.0
"""Seconds in which a worker must take a backend's run."""

LIMIT_S = 24 * 3600.0
"""Seconds after which a sweep gives up what is still going."""


@flow(name="sweep", persist_result=False, validate_parameters=True)
def sweep(  # noqa: PLR0917 - Prefect calls it by name
    matrix: str | InlineMatrix | None = None,
    kernel: Names = [],  # noqa: B006 - Prefect shows the defaults in its form
    framework: Names = [],  # noqa: B006
    size: Names = [],  # noqa: B006
    dtype: Names = [],  # noqa: B006
    backend: Names = [],  # noqa: B006
    derivative: Orders = [],  # noqa: B006
    results: str | None = None,
    rounds: Annotated[int, Field(ge=1)] | None = None,
    budget_s: Annotated[float, Field(gt=0)] | None = None,
    seed: Annotated[int, Field(ge=0)] | None = None,
    timeout_s: Annotated[float, Field(gt=0)] | None = None,
    min_sample_ms: Annotated[float, Field(gt=0)] | None = None,
    cold: bool | None = None,
    workers: Annotated[int, Field(ge=1)] | None = None,
    programs: bool = False,
    baseline: str | None = None,
    deployments: Annotated[dict[str, str], Field(description="Backend to deployment, instead of bench/BACKEND.")] = {},  # noqa: B006
    images: Annotated[dict[str, list[str]], Field(description="Backend to container images, a run in each.")] = {},  # noqa: B006
    start_timeout_s: Annotated[float, Field(gt=0)] = START_TIMEOUT_S,
    limit_s: Annotated[float, Field(gt=0)] = LIMIT_S,
) -> State[Any]:
    """Measure a matrix on all of its backends, each by a deployment of its own.

    Args:
        matrix: name of a matrix (seeds, smoke, all), or a matrix written out; empty takes seeds.
        kernel: kernels to keep, such as dense; empty keeps all.
        framework: frameworks or modes to keep, such as jax or jax/jit; empty keeps all.
        size: size labels to keep, such as M; empty keeps all.
        dtype: dtypes to keep, such as float32; empty keeps all.
        backend: backends to measure on, instead of the matrix's own; empty keeps those.
        derivative: 0 the value, 1 the gradient, 2 a Hessian-vector product, instead of the matrix's own.
        results: root of the results; empty takes JITMATRIX_RESULTS, the Prefect variable jitmatrix_results, or results.
        rounds: fresh processes per case, spread over the run; empty takes the matrix's.
        budget_s: seconds of steady sampling per case, over all rounds; empty takes the matrix's.
        seed: seed of the inputs, the order of cases and the bootstrap.
        timeout_s: deadline of one process, in seconds.
        min_sample_ms: a sample lasts at least this long; empty takes 10.
        cold: rotate the inputs of steady calls through a working set beyond the last-level cache.
        workers: cases side by side, one thread each, pinned to a core of its own; empty takes one at a time.
        programs: keep the text of every compiled program, under hlo/ by its hash.
        baseline: run to compare each backend's with: an id, latest, a day, image:NAME; empty compares with nothing.
        deployments: backend to the deployment that measures on it; bench/BACKEND where it is not named.
        images: backend to container images: a run in each of them, in docker and kubernetes work pools.
        start_timeout_s: seconds in which a worker must take a backend's run; it is unavailable, and cancelled, then.
        limit_s: seconds after which runs that are still going are cancelled.

    Returns:
        The state, as ``flows.states`` names it: of what went wrong, what must be seen first.
    """
    given = dict(locals())
    own = ("baseline", "deployments", "images", "start_timeout_s", "limit_s")
    logger = get_run_logger()
    try:
        exact(given)
        target = settle(results)
        order = Order.from_parameters({**{k: v for k, v in given.items() if k not in own}, "results": target})
        planned = plan.divide(order)
        begun = dispatch.begun(runtime.flow_run.id)
        errands = _errands(order, planned, results, deployments, images, begun=begun)
        for errand in errands.values():
            dispatch.look(errand)
        before = _baselines(order.root, baseline, planned)
        waits = _store(planned, order.root)
    except UsageError as error:
        return states.refused(str(error))
    except OSError as error:
        return states.refused(f"the plan cannot be stored: {error}")
    note = logger.info
    note("%d cells on %s, plan %s", planned.table.num_rows, ", ".join(planned.shares), planned.key)
    if waits:
        logger.warning("%s", waits)
    for each in sorted(set(planned.shares) - before.keys()) if baseline else ():
        logger.warning("%s has no run that %s means: it is compared with nothing", each, baseline)
    publisher = Publisher(logger.warning)
    sent: list[Sent] = []
    try:
        for errand in errands.values():
            sent.append(Sent(errand, parameters=errand.parameters))
            dispatch.send(sent[-1], logger.warning)
            note("%s", _line(sent[-1]))
        follow(sent, start_timeout_s, limit_s, logger.warning, lambda now: _progress(publisher, now, planned))
    except BaseException:
        recall(sent, "the sweep that had sent it was ended", logger.warning)
        raise
    recall(sent, "the sweep that had asked for it went on without it", logger.warning)
    became = dict(zip(errands, sent, strict=True))
    _record(order, planned, became, begun, logger.warning)
    found = shares_of(order, planned, became)
    for share in found:
        note("%s: %s, %s", share.backend, share.state, states.counted(share.counts))
    compared, lines = compared_with(order.root, before, found)
    publisher.markdown(
        "sweep", pages.sweep(found, lines, f"{order.root.address}/{planned.key}", order.root.address), "Sweep"
    )
    for share, comparison in compared:
        if not comparison.passed:
            events.regression(
                share.run_id, order.matrix.name, order.root.address, comparison.baseline[0].id,
                cases=len(comparison.regressions) + len(comparison.broken), lines=comparison.lines(),
            )  # fmt: skip
    return state_of(found, compared)


def _errands(
    order: Order,
    planned: Planned,
    results: str | None,
    deployments: Mapping[str, str],
    images: Mapping[str, Sequence[str]],
    *,
    begun: datetime,
) -> dict[tuple[Backend, str | None], Errand]:
    """Write the errands: one for each backend, or for each of its images."""
    for name, values in (("deployments", deployments), ("images", images)):
        for each in values:
            if backend_named(each, name) not in planned.shares:
                raise UsageError(f"{name}: {each} is no backend of this sweep; it has {', '.join(planned.shares)}")
    found: dict[tuple[Backend, str | None], Errand] = {}
    for backend, share in planned.shares.items():
        if not share.plan.cases:
            continue  # nothing of it can be measured: its skips are in the plan
        named: Sequence[str | None] = images.get(backend.value) or [None]
        for image in named:
            parameters = share.parameters()
            if results is None and isinstance(order.root, LocalRoot):
                # A folder of this machine says nothing to another: its worker has a setting of its own.
                del parameters["results"]
            parameters |= {"run": _run_id(begun, backend, image), "plan": planned.hashes[backend]}
            deployment = deployments.get(backend.value) or f"bench/{backend}"
            name = f"{order.matrix.name} on {backend}" + (f" in {image}" if image else "")
            found[backend, image] = Errand(deployment, exact(parameters), name, _key(backend, image), image)
    return found


def _run_id(begun: datetime, backend: Backend, image: str | None = None) -> str:
    """Choose the id of a share's run: the same for the same sweep, which may be started again after it was killed."""
    return str(uuid7(begun, _key(backend, image)))


def _key(backend: Backend, image: str | None) -> str:
    """Name a share of this sweep: the same for the same sweep, and for no other."""
    return f"{runtime.flow_run.id}-{backend}-{image or ''}"


def _baselines(root: Root, baseline: str | None, planned: Planned) -> dict[Backend, list[str]]:
    """Find the baseline before anything is sent: what is latest then is not what this sweep measures."""
    found: dict[Backend, list[str]] = {}
    missing: UsageError | None = None
    for backend in planned.shares if baseline else ():
        try:
            found[backend] = resolve(root, str(baseline), backend.value)
        except UsageError as error:
            missing = error
    # Where nothing was measured before, nothing is the latest: this is what later sweeps are compared with.
    if missing is not None and not found and baseline != "latest":
        raise UsageError(f"baseline {baseline}: {missing}")
    return found


def _store(planned: Planned, root: Root) -> str:
    """Store the plan; gives why it waits, where storage is away."""
    own = spool(root)
    try:
        root.check()
    except StorageError as error:
        if not error.away:
            raise
    # Other bytes under the key are the same plan, packed by another version of Arrow.
    publish_new(own.path(planned.key), planned.content())
    if isinstance(root, LocalRoot):
        return ""
    sent = upload(own, root)
    return "" if planned.key not in sent.waiting else f"{sent}; it waits in {own.folder}"


def _record(
    order: Order,
    planned: Planned,
    became: Mapping[tuple[Backend, str | None], Sent],
    begun: datetime,
    warn: Callable[[str], None],
) -> None:
    """Store a row for every cell that nobody took: whoever asks the results finds the whole plan in them."""
    named = {backend for backend, _ in became}
    left = [(each, _run_id(begun, each), "") for each in planned.shares if each not in named]
    left += [(each, str(one.parameters["run"]), one.unavailable) for (each, _), one in became.items() if one.untaken]
    for backend, run_id, reason in left:
        try:
            untaken.record(
                planned.shares[backend], run_id, reason, failed=backend.value in order.filters.backend, note=warn
            )
        except (UsageError, OSError) as error:
            warn(f"{backend}: what was not measured is in the plan alone: {error}")


def _progress(publisher: Publisher, sent: Sequence[Sent], planned: Planned) -> None:
    done = sum(not each.open for each in sent)
    publisher.progress("sweep-progress", 100 * done / len(sent), "; ".join(map(_line, sent)))


def _line(sent: Sent) -> str:
    state = sent.state.name if sent.state is not None else "not sent"
    return f"{sent.errand.name}: {sent.unavailable or state}"
