"""Runs that were killed: the next run of their root says how to go on with them, and marks them on the server.

A run that is going keeps its journal locked; a journal that nobody locks is that of a process which is gone. Its flow
run may be Running on the server for ever, where no worker watched it and no automation misses its heartbeats.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import State, StateType
from prefect.states import Crashed

from flows.file_lock import locked
from flows.journal import place, unfinished
from flows.results import Run
from flows.spool import spool

LABEL = "jitmatrix.run"
"""Of a flow run: the id of the run whose journal it has."""


def tell(run: Run) -> list[str]:
    """Find runs of the same root that were killed, and mark their flow runs as crashed where the server has them.

    Args:
        run: the run that begins or goes on; its journal is open, so an earlier flow run of it is dead too.

    Returns:
        A line on how to go on with them; none where there are none.
    """
    folder = spool(run.order.root).folder
    dead = [each for each in unfinished(folder) if each != run.id and not _is_going(folder, each)]
    try:
        _mark({*dead, run.id}, run.id)
    except (httpx.HTTPError, RuntimeError) as error:
        # The next run tries again; this one has its own work.
        return [*_lines(dead, run), f"their flow runs are not marked as crashed: {' '.join(str(error).split())}"]
    return _lines(dead, run)


def _lines(dead: list[str], run: Run) -> list[str]:
    if not dead:
        return []
    command = f"jitmatrix bench --resume {dead[-1]} --results {shlex.quote(run.order.root.address)}"
    if len(dead) == 1:
        return [f"an earlier run was killed or interrupted; go on with it: {command}"]
    return [f"{len(dead)} earlier runs were killed or interrupted; go on with the last: {command}"]


def _is_going(folder: Path, run_id: str) -> bool:
    """Tell whether a process has a run's journal; one whose journal is gone meanwhile came to its end."""
    try:
        with place(folder, run_id).open("rb") as file:
            return not locked(file.fileno())
    except FileNotFoundError:
        return True


def _mark(dead: Collection[str], own: str) -> None:
    """Tie this process's flow run to its run, and end those of the dead."""
    this = runtime.flow_run.id
    kinds = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING])
    with get_client(sync_client=True) as client:
        for flow_run in client.read_flow_runs(flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=kinds))):
            if flow_run.labels.get(LABEL) in dead and str(flow_run.id) != this:
                state: State[Any] = Crashed(message=f"the process of run {flow_run.labels[LABEL]} is gone")
                client.set_flow_run_state(flow_run.id, state, force=True)
        if this:
            client.update_flow_run_labels(UUID(this), {LABEL: own})
