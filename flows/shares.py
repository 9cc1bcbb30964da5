"""What became of a sweep's shares: counted, compared with a baseline, and put into one state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.schemas.objects import State

from flows import states
from flows.compare import compare
from flows.comparison import Comparison
from flows.dispatch import Sent
from flows.order import Order
from flows.pages import COUNTS, Share
from flows.plan import Planned
from flows.references import stored_runs
from flows.storage import Root, StorageError
from kernels.case import Backend, Plan
from kernels.errors import UsageError


def shares_of(order: Order, planned: Planned, sent: Mapping[tuple[Backend, str | None], Sent]) -> list[Share]:
    """Say what became of each share, by its run's row where the root can be seen from here.

    Args:
        order: of the sweep.
        planned: its plan.
        sent: backend and image to what became of its flow run.

    Returns:
        A share for each.
    """
    try:
        stored = {run.id: run for run in stored_runs(order.root)}
    except (StorageError, UsageError):
        stored = {}
    shares = []
    for (backend, image), each in sent.items():
        run_id = str(each.parameters.get("run", ""))
        cells = planned.shares[backend].plan
        row = stored[run_id].row if run_id in stored and not each.unavailable else {}
        known = all(row.get(name) is not None for name in COUNTS)
        state = (each.state.name if each.state is not None else None) or states.UNAVAILABLE
        said = (each.state.message if each.state is not None else "") or ""
        message = each.unavailable or said
        counts = {name: int(row[name]) for name in COUNTS} if known else states.recounted(message)
        if counts is None:
            counts = _unmeasured(order, backend, cells, begun=not each.unavailable and state != states.UNAVAILABLE)
        if not known and not each.unavailable:
            message = f"{message}; run {run_id} is not seen under {order.root.address}".lstrip("; ")
        shares.append(
            Share(
                backend.value,
                each.errand.deployment,
                run_id,
                states.UNAVAILABLE if each.unavailable else state,
                counts,
                "" if known and state == states.COMPLETED else message,
                image or "",
            )
        )
    named = {backend for backend, _ in sent}
    for backend in (each for each in planned.shares if each not in named):
        counts = _unmeasured(order, backend, planned.shares[backend].plan, begun=False)
        shares.append(Share(backend.value, "", "", states.NOTHING_TO_DO, counts, "every cell is skipped"))
    return shares


def _unmeasured(order: Order, backend: Backend, cells: Plan, begun: bool) -> dict[str, int]:
    """Count cells of which nothing is known: failed where the run began, or where the backend was asked for by name."""
    cases, skips = len(cells.cases), len(cells.skips)
    failed = cases if begun or backend.value in order.filters.backend else 0
    return {"planned": cases + skips, "ok": 0, "failed": failed, "skipped": cases + skips - failed}


def compared_with(
    root: Root, before: Mapping[Backend, Sequence[str]], shares: Sequence[Share]
) -> tuple[list[tuple[Share, Comparison]], list[str]]:
    """Compare the runs that came to their end with the baseline's.

    Args:
        root: of the results.
        before: backend to the baseline's runs.
        shares: of the sweep.

    Returns:
        The comparisons; and lines for people, of what cannot be compared too.
    """
    found, lines = [], list[str]()
    for share in shares:
        baseline = before.get(Backend(share.backend))
        if not baseline or share.state not in {states.COMPLETED, states.FAILED_CASES}:
            continue
        try:
            comparison = compare(root, baseline, [share.run_id], backend=share.backend)
        except (UsageError, StorageError) as error:
            lines.append(f"{share.backend}: not compared: {error}")
            continue
        found.append((share, comparison))
        lines += [f"{share.backend}{f' in {share.image}' if share.image else ''}:", *comparison.lines()]
    return found, lines


def state_of(shares: Sequence[Share], compared: Sequence[tuple[Share, Comparison]]) -> State[Any]:
    """Choose the state of a sweep.

    Args:
        shares: of the sweep.
        compared: its comparisons.

    Returns:
        Of what went wrong, what must be seen first.
    """
    sums = {name: sum(share.counts[name] for share in shares) for name in COUNTS}
    each = "; ".join(f"{share.backend}: {share.state}" for share in shares)
    message = f"{states.counted(sums)}; {each}"
    slower = [share for share, found in compared if not found.passed]
    if slower:
        return states.regression(f"{', '.join(share.backend for share in slower)} slower than the baseline; {message}")
    names = {share.state for share in shares}
    why = "; ".join(share.message for share in shares if share.message)
    if states.FAILED_TO_UPLOAD in names:
        return states.failed_to_upload(f"{message}; {why}")
    if names == {states.REFUSED}:
        return states.refused(why)
    if names - {states.COMPLETED, states.NOTHING_TO_DO, states.UNAVAILABLE}:
        return states.failed_cases(f"{message}; {why}" if why else message)
    if states.UNAVAILABLE in names:
        return states.unavailable(f"{message}; {why}")
    if sums["failed"]:
        return states.failed_cases(message)
    return states.completed(message) if sums["ok"] else states.unavailable(message)
