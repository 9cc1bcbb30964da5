"""Events that automations wait for: a run is finished, a run is slower than its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.schemas.objects import State
from prefect.events import emit_event

from flows.server import shared

FINISHED = "jitmatrix.run.finished"
"""A run came to its end; the resource's label ``jitmatrix.state`` says how."""

REGRESSION = "jitmatrix.run.regression"
"""A run is slower than its baseline."""

LINES = 20
"""Lines of a comparison that an event holds at most: all of them are in an artifact."""


def finished(run_id: str, matrix: str, root: str, found: Mapping[str, int], state: State[Any]) -> None:
    """Tell that a run came to its end; where no one else uses the server, nothing is sent.

    Args:
        run_id: the run.
        matrix: its matrix's name.
        root: address of the root with its results.
        found: planned, ok, failed, skipped.
        state: as ``flows.states`` makes it.
    """
    payload = {"counts": dict(found), "message": state.message or ""}
    _emit(FINISHED, run_id, matrix, {"root": root, "state": state.name or ""}, payload)


def regression(run_id: str, matrix: str, root: str, baseline: str, *, cases: int, lines: Sequence[str]) -> None:
    """Tell that a run is slower than its baseline; where no one else uses the server, nothing is sent.

    Args:
        run_id: the run.
        matrix: its matrix's name.
        root: address of the root with its results.
        baseline: id of the run that it was compared with.
        cases: how many cases are slower.
        lines: of the comparison, the worst first.
    """
    slower = f"{cases} case is" if cases == 1 else f"{cases} cases are"
    message = "; ".join([f"{slower} slower than in run {baseline}", *lines[:1]])
    payload = {"cases": cases, "lines": list(lines[:LINES]), "message": message}
    _emit(REGRESSION, run_id, matrix, {"root": root, "baseline": baseline}, payload)


def _emit(event: str, run_id: str, matrix: str, labels: Mapping[str, str], payload: Mapping[str, Any]) -> None:
    if not shared():
        return
    resource = {
        "prefect.resource.id": f"jitmatrix.run.{run_id}",
        "prefect.resource.name": matrix,
        # An automation can match labels, and no payload.
        **{f"jitmatrix.{name}": value for name, value in labels.items()},
    }
    # What a webhook's template shows stands in the payload: labels have dots in their names.
    emit_event(event, resource, payload={"run_id": run_id, "matrix": matrix, **labels, **payload})
