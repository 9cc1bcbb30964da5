"""Flow runs that were sent: followed to their ends, and taken back where no worker takes them in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling

from flows.dispatch import AWAY, AWAY_S, Sent, said

POLL_S = 2.0
"""Seconds between two looks at the runs."""

STARTING_S = 1800.0
"""So long a run may take from its worker to its first step, at least: an image with CUDA has several gigabytes."""

ENDING_S = 180.0
"""So long a worker may take to end a run that is cancelled."""

_QUEUED = "AwaitingConcurrencySlot"
_UNANSWERED = "Prefect's server gave no answer when the sweep's limit was over"


def follow(
    sent: Sequence[Sent],
    start_timeout_s: float,
    limit_s: float,
    note: Callable[[str], None],
    seen: Callable[[Sequence[Sent]], None],
) -> None:
    """Follow flow runs to their ends; a server that is away is waited for.

    Args:
        sent: the runs; their states are filled.
        start_timeout_s: seconds in which a worker must take a run; not counted are those in which the server is away,
            or the run waits for another of its deployment.
        limit_s: seconds after which runs that are still going are cancelled.
        note: is told what people should know, in a line.
        seen: is told after every look.
    """
    watch = _Watch(start_timeout_s, limit_s, note)
    with get_client(sync_client=True) as client:
        while any(each.open for each in sent):
            time.sleep(watch.look(client, [each for each in sent if each.open]))
            seen(sent)


def recall(sent: Sequence[Sent], reason: str, note: Callable[[str], None]) -> None:
    """Cancel what is still open: what waits will never start, what goes on is ended by its worker.

    Args:
        sent: the runs, and those that the server was asked for without an answer.
        reason: why, for their states.
        note: is told what could not be cancelled.
    """
    with get_client(sync_client=True) as client:
        for each in sent:
            wanted = each.open or each.asked
            try:
                if each.asked:
                    _claim(client, each, reason)
                if each.flow_run is not None and wanted:
                    _cancel(client, each, each.flow_run, reason)
            except ObjectNotFound:
                each.unavailable = _gone(each)
            except AWAY as error:
                run = each.flow_run or f"of the name {each.errand.name}, if there is one"
                note(f"{each.errand.name} could not be cancelled ({said(error)}): prefect flow-run cancel {run}")


class _Watch:
    """Counts the seconds that each run has waited."""

    def __init__(self, start_timeout_s: float, limit_s: float, note: Callable[[str], None]) -> None:
        self._start_timeout_s, self._note = start_timeout_s, note
        self._end = time.monotonic() + limit_s
        self._waited: dict[tuple[UUID, StateType], float] = {}
        self._why: dict[UUID, str] = {}
        self._last, self._away = time.monotonic(), False

    def look(self, client: SyncPrefectClient, sent: Sequence[Sent]) -> float:
        """Look at every run once; gives the seconds until the next look."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        try:
            for each in sent:
                self._one(client, each, 0.0 if self._away else passed)
        except AWAY as error:
            if not self._away:
                self._note(
                    f"Prefect's server gives no answer ({type(error).__name__}); its runs go on, and so does this"
                )
            self._away = True
            if now > self._end:
                for each in (one for one in sent if one.open):
                    each.unavailable = f"{each.errand.deployment}: {_UNANSWERED}; look at its flow run {each.flow_run}"
            return AWAY_S
        if self._away:
            self._note("Prefect's server answers again")
        self._away = False
        return POLL_S

    def _one(self, client: SyncPrefectClient, sent: Sent, passed: float) -> None:
        assert sent.flow_run is not None
        try:
            sent.take(client.read_flow_run(sent.flow_run))
            self._judge(client, sent, sent.flow_run, passed)
        except ObjectNotFound:
            sent.unavailable = _gone(sent)

    def _judge(self, client: SyncPrefectClient, sent: Sent, flow_run: UUID, passed: float) -> None:
        if sent.state is None or sent.state.is_final():
            self._end_of(sent, flow_run)
            return
        kind, queued = sent.state.type, sent.state.name == _QUEUED
        waited = self._waited[flow_run, kind] = self._waited.get((flow_run, kind), 0.0) + passed
        if kind is StateType.CANCELLING:
            if waited > ENDING_S and not sent.begun:
                # Its worker is gone; until now it could not begin, and it has held a place among its deployment's runs.
                why = self._why.setdefault(flow_run, "it was cancelled")
                client.set_flow_run_state(flow_run, Cancelled(message=why))
                sent.take(client.read_flow_run(flow_run))
                self._end_of(sent, flow_run)
            elif waited > ENDING_S:
                what = f"its worker has not ended it; look at its flow run {flow_run}"
                sent.unavailable = f"{sent.errand.deployment}: {self._why.get(flow_run, 'it was cancelled')}; {what}"
            return
        if time.monotonic() > self._end:
            self._give_up(client, sent, flow_run, "it was still going when the sweep's limit was over")
            return
        if queued or kind not in {StateType.SCHEDULED, StateType.PENDING}:
            return
        taken = kind is StateType.PENDING
        if waited < (max(STARTING_S, self._start_timeout_s) if taken else self._start_timeout_s):
            return
        what = "its worker did not start it" if taken else "no worker took it"
        self._give_up(
            client, sent, flow_run, f"{what} in {waited:.0f} s; is a worker running? prefect worker start --pool NAME"
        )

    def _give_up(self, client: SyncPrefectClient, sent: Sent, flow_run: UUID, why: str) -> None:
        """Cancel a run; one that began in that very moment is followed until its worker has ended it."""
        self._why[flow_run] = why
        _cancel(client, sent, flow_run, why)
        self._end_of(sent, flow_run)

    def _end_of(self, sent: Sent, flow_run: UUID) -> None:
        """Say why a run was never begun, or was given up."""
        if sent.state is None or not sent.state.is_final():
            return
        if flow_run in self._why and sent.state.is_cancelled():
            sent.unavailable = f"{sent.errand.deployment}: {self._why[flow_run]}"
        elif not sent.begun and not sent.state.is_completed():
            said = " ".join((sent.state.message or "no reason is known").split())
            sent.unavailable = f"{sent.errand.deployment}: {sent.state.name} before it began: {said}"


def _cancel(client: SyncPrefectClient, sent: Sent, flow_run: UUID, reason: str) -> None:
    """Cancel a run: the server ends at once what waits; what a worker has, that worker has to end."""
    sent.take(client.read_flow_run(flow_run))
    if sent.state is None or sent.state.is_final() or sent.state.type is StateType.CANCELLING:
        return
    # Not forced to be cancelled: by now a worker may have it, and from there a run can begin all the same. From
    # Cancelling it cannot.
    client.set_flow_run_state(flow_run, Cancelling(message=reason))
    sent.take(client.read_flow_run(flow_run))
    if sent.state is not None and sent.state.is_cancelled() and not sent.state.message:
        # The server's own, for a run that nobody had: it has no words.
        client.set_flow_run_state(flow_run, Cancelled(message=reason))
        sent.take(client.read_flow_run(flow_run))


def _claim(client: SyncPrefectClient, sent: Sent, reason: str) -> None:
    """Find the run that the server may have made; where it has not, make it as cancelled.

    Its key makes it one run: a request that is still on its way finds it, and makes no other.
    """
    errand = sent.errand
    deployment = client.read_deployment_by_name(errand.deployment)
    made = client.create_flow_run_from_deployment(
        deployment.id,
        parameters=dict(errand.parameters),
        state=Cancelled(message=reason),
        name=errand.name,
        idempotency_key=errand.key,
        job_variables=errand.job_variables,
    )
    sent.take(made)


def _gone(sent: Sent) -> str:
    if sent.flow_run is None:
        return f"deployment {sent.errand.deployment} was deleted from the server"
    return f"its flow run {sent.flow_run} was deleted from the server"
