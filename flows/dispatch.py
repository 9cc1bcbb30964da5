"""Flow runs of other deployments: sent, followed to their end, and taken back where no worker takes them in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State, StateType
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling

from flows.s3_errors import without_secrets
from kernels.errors import UsageError

POLL_S = 2.0
"""Seconds between two looks at the runs;"""

AWAY_S = 10.0
"""and after one to which the server gave no answer."""

PATIENCE_S = 300.0
"""Seconds that a server that is away is waited for before a run is made."""

STARTING_S = 1800.0
"""So long a run may take from its worker to its first step, at least: an image with CUDA has several gigabytes."""

_AWAY = (httpx.HTTPError, RuntimeError, OSError)
_FLOW = "bench"
_NO_IMAGES = "process"
_QUEUED = "AwaitingConcurrencySlot"
_UNANSWERED = "Prefect's server gave no answer when the sweep's limit was over"


@dataclass(frozen=True, slots=True)
class Errand:
    """A flow run that is to be made.

    Attributes:
        deployment: as flow/deployment.
        parameters: of the flow.
        name: of the flow run.
        key: the same for the same errand: a sweep that is started again finds the run that it has sent.
        image: container image to run in; None takes the deployment's own.
    """

    deployment: str
    parameters: Mapping[str, Any]
    name: str
    key: str
    image: str | None = None


@dataclass(slots=True)
class Sent:
    """What became of an errand.

    Attributes:
        errand: what was to be done.
        flow_run: id of its flow run; None where none was made.
        parameters: that the run has; those of the errand, or of the run that an earlier start of the sweep had sent.
        state: the last that is known.
        unavailable: why it could not be done at all, in a line; empty where it was begun.
    """

    errand: Errand
    flow_run: UUID | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: State[Any] | None = None
    unavailable: str = ""

    @property
    def open(self) -> bool:
        """Whether it is still to be followed."""
        return not self.unavailable and (self.state is None or not self.state.is_final())


def look(errand: Errand) -> str:
    """Look whether an errand can be sent at all.

    Args:
        errand: the errand.

    Returns:
        Why nothing would take it; empty where something might.

    Raises:
        UsageError: the server does not answer, the deployment is not of bench, or an image is named and the work
            pool has none.
    """
    try:
        return _look(errand)
    except _AWAY as error:
        raise UsageError(f"PREFECT_API_URL: no Prefect server answers there ({_said(error)})") from None


def _look(errand: Errand) -> str:
    flow, _, name = errand.deployment.partition("/")
    if not name or "/" in name:
        raise UsageError(f"deployments: {errand.deployment}: write FLOW/NAME, such as {_FLOW}/cpu")
    if flow != _FLOW:
        raise UsageError(f"deployments: {errand.deployment} is of the flow {flow}; name a deployment of {_FLOW}")
    with get_client(sync_client=True) as client:
        try:
            deployment = client.read_deployment_by_name(errand.deployment)
            if deployment.work_pool_name is None:
                return f"deployment {errand.deployment} has no work pool; deploy it anew: jitmatrix deploy"
            pool = client.read_work_pool(deployment.work_pool_name)
        except ObjectNotFound as error:
            return _missing(errand, error)
    if errand.image is not None and pool.type == _NO_IMAGES:
        raise UsageError(
            f"images: work pool {pool.name} of {errand.deployment} is of type {pool.type}, and runs no images;"
            " leave its backend out of images, or make a pool of type docker or kubernetes"
        )
    if pool.is_paused:
        return f"work pool {pool.name} is paused; resume it: prefect work-pool resume {pool.name}"
    return ""


def send(errand: Errand, note: Callable[[str], None]) -> Sent:
    """Make the flow run of an errand; it waits for a worker then.

    Args:
        errand: the errand.
        note: is told, once, that the server is away and waited for.

    Returns:
        What is known of it.
    """
    end, told = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            # Tried again it is the same run, by its key.
            return _sent(errand)
        except UsageError as error:
            return Sent(errand, parameters=errand.parameters, unavailable=str(error))
        except _AWAY as error:
            if _refused(error) or time.monotonic() > end:
                why = f"{errand.deployment} could not be started: {_said(error)}"
                return Sent(errand, parameters=errand.parameters, unavailable=why)
            if not told:
                note(f"Prefect's server gives no answer ({type(error).__name__}); {errand.name} is sent when it does")
                told = True
            time.sleep(AWAY_S)


def _sent(errand: Errand) -> Sent:
    sent = Sent(errand, parameters=errand.parameters, unavailable=_look(errand))
    if sent.unavailable:
        return sent
    try:
        made: Any = run_deployment(
            errand.deployment,
            parameters=dict(errand.parameters),
            timeout=0,
            flow_run_name=errand.name,
            idempotency_key=errand.key,
            job_variables={"image": errand.image} if errand.image else None,
        )
    except ObjectNotFound as error:
        sent.unavailable = _missing(errand, error)
        return sent
    sent.flow_run, sent.state, sent.parameters = made.id, made.state, made.parameters
    return sent


def _refused(error: Exception) -> bool:
    """Tell whether a server has answered, and will answer the same again."""
    status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None
    return status is not None and status < httpx.codes.INTERNAL_SERVER_ERROR and status != httpx.codes.TOO_MANY_REQUESTS


def _said(error: Exception) -> str:
    return without_secrets(" ".join(str(error).split())) or type(error).__name__


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
        sent: the runs.
        reason: why, for their states.
        note: is told what could not be cancelled.
    """
    with get_client(sync_client=True) as client:
        for each in sent:
            if each.open and each.flow_run is not None:
                try:
                    each.state = _cancelled(client, each.flow_run, reason)
                except ObjectNotFound:
                    each.unavailable = _deleted(each.flow_run)
                except _AWAY as error:
                    what = f"{each.errand.name} could not be cancelled ({_said(error)})"
                    note(f"{what}: prefect flow-run cancel {each.flow_run}")


class _Watch:
    """Counts the seconds that each run has waited."""

    def __init__(self, start_timeout_s: float, limit_s: float, note: Callable[[str], None]) -> None:
        self._start_timeout_s, self._note = start_timeout_s, note
        self._end = time.monotonic() + limit_s
        self._waited: dict[tuple[UUID, StateType], float] = {}
        self._last, self._away = time.monotonic(), False

    def look(self, client: SyncPrefectClient, sent: Sequence[Sent]) -> float:
        """Look at every run once; gives the seconds until the next look."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        try:
            for each in sent:
                self._one(client, each, 0.0 if self._away else passed)
        except _AWAY as error:
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
            self._judge(client, sent, sent.flow_run, passed)
        except ObjectNotFound:
            sent.unavailable = _deleted(sent.flow_run)

    def _judge(self, client: SyncPrefectClient, sent: Sent, flow_run: UUID, passed: float) -> None:
        sent.state = state = client.read_flow_run(flow_run).state
        if state is None or state.is_final():
            return
        if time.monotonic() > self._end:
            sent.state = _cancelled(client, flow_run, "the sweep's limit is over")
            self._end_of(sent, "it was still going when the sweep's limit was over, and was cancelled")
            return
        if state.name == _QUEUED or state.type not in {StateType.SCHEDULED, StateType.PENDING}:
            return
        waited = self._waited[flow_run, state.type] = self._waited.get((flow_run, state.type), 0.0) + passed
        taken = state.type is StateType.PENDING
        if waited < (max(STARTING_S, self._start_timeout_s) if taken else self._start_timeout_s):
            return
        sent.state = _cancelled(client, flow_run, "no worker took it in time")
        what = "its worker did not start it" if taken else "no worker took it"
        self._end_of(sent, f"{what} in {waited:.0f} s; is a worker running? prefect worker start --pool NAME")

    @staticmethod
    def _end_of(sent: Sent, why: str) -> None:
        """Say why a run was given up; one that began in that very moment is followed on."""
        if sent.state is not None and sent.state.is_cancelled():
            sent.unavailable = f"{sent.errand.deployment}: {why}"


def _cancelled(client: SyncPrefectClient, flow_run: UUID, reason: str) -> State[Any] | None:
    """Cancel a run: at once where it waits, through its worker where it goes on; gives the state that it has then."""
    state = client.read_flow_run(flow_run).state
    if state is not None and state.type in {StateType.SCHEDULED, StateType.PENDING}:
        # Final: a worker that comes later is refused the run.
        client.set_flow_run_state(flow_run, Cancelled(message=reason), force=True)
        state = client.read_flow_run(flow_run).state
    if state is not None and not state.is_final() and state.type is not StateType.CANCELLING:
        client.set_flow_run_state(flow_run, Cancelling(message=reason))
        state = client.read_flow_run(flow_run).state
    return state


def _deleted(flow_run: UUID) -> str:
    return f"its flow run {flow_run} was deleted from the server"


def _missing(errand: Errand, error: ObjectNotFound) -> str:
    if "work pool" in str(error).lower() or "work_pool" in str(error).lower():
        return (
            f"the work pool of {errand.deployment} does not exist; make it: prefect work-pool create NAME --type TYPE"
        )
    return f"there is no deployment {errand.deployment}; make it: jitmatrix deploy"
