"""Flow runs of other deployments: looked for, and made, each once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from flows.redaction import without_secrets
from kernels.errors import UsageError

AWAY_S = 10.0
"""Seconds until a server that gave no answer is asked again;"""

PATIENCE_S = 300.0
"""and those that it is waited for before a run is made."""

AWAY = (httpx.HTTPError, RuntimeError, OSError)
"""What Prefect's client raises where its server gives no answer, or a wrong one."""

_FLOW = "bench"
_NO_IMAGES = "process"


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

    @property
    def job_variables(self) -> dict[str, Any] | None:
        """What its run has instead of its deployment's own; None where nothing."""
        return {"image": self.image} if self.image else None


@dataclass(slots=True)
class Sent:
    """What became of an errand.

    Attributes:
        errand: what was to be done.
        flow_run: id of its flow run; None where none was made.
        parameters: that the run has; those of the errand, or of the run that an earlier start of the sweep had sent.
        asked: whether the server was asked for the run, and may have made it, though no answer came.
        state: the last that is known.
        begun: whether the flow run has ever been running.
        unavailable: why it could not be done at all, in a line; empty where it was begun.
    """

    errand: Errand
    flow_run: UUID | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    asked: bool = False
    state: State[Any] | None = None
    begun: bool = False
    unavailable: str = ""

    def take(self, run: FlowRun) -> None:
        """Take over what the server tells of the run.

        Args:
            run: as it was read or made.
        """
        self.flow_run, self.asked = run.id, False
        self.state, self.begun, self.parameters = run.state, run.run_count > 0, run.parameters

    @property
    def open(self) -> bool:
        """Whether it is still to be followed."""
        return not self.unavailable and (self.state is None or not self.state.is_final())

    @property
    def untaken(self) -> bool:
        """Whether nobody has begun it, and nobody can any more."""
        if not self.unavailable or self.begun or self.asked:
            return False
        # A server lets no run begin that is to be cancelled.
        return self.flow_run is None or (
            self.state is not None and (self.state.is_final() or self.state.type is StateType.CANCELLING)
        )


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
    with _reached():
        return _look(errand)


def begun(flow_run: object) -> datetime:
    """Say when a flow run first ran: a run that is started again has the same answer.

    Args:
        flow_run: its id.

    Returns:
        The moment, never one to come: a run that was put forward is expected later than it ran.

    Raises:
        UsageError: the server does not answer.
    """
    now = datetime.now(UTC)
    with _reached(), get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(str(flow_run)))
    return min(run.start_time or run.expected_start_time or now, now)


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    """Say in one line that the server does not answer."""
    try:
        yield
    except AWAY as error:
        raise UsageError(f"PREFECT_API_URL: no Prefect server answers there ({said(error)})") from None


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


def send(sent: Sent, note: Callable[[str], None]) -> None:
    """Make the flow run of an errand; it waits for a worker then.

    Args:
        sent: the errand; is told what is known of its run. Where this is interrupted, it says whether one may be made.
        note: is told, once, that the server is away and waited for.
    """
    errand = sent.errand
    end, told = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            # Tried again it is the same run, by its key.
            _send(sent)
            return
        except UsageError as error:
            sent.unavailable = str(error)
            return
        except AWAY as error:
            refused = _refused(error)
            sent.asked = sent.asked and not refused
            if refused or time.monotonic() > end:
                sent.unavailable = f"{errand.deployment} could not be started: {said(error)}"
                return
            if not told:
                note(f"Prefect's server gives no answer ({type(error).__name__}); {errand.name} is sent when it does")
                told = True
            time.sleep(AWAY_S)


def _send(sent: Sent) -> None:
    errand = sent.errand
    why = _look(errand)
    if why:
        sent.unavailable = why
        return
    sent.asked = True
    try:
        made: Any = run_deployment(
            errand.deployment,
            parameters=dict(errand.parameters),
            timeout=0,
            flow_run_name=errand.name,
            idempotency_key=errand.key,
            job_variables=errand.job_variables,
        )
    except ObjectNotFound as error:
        sent.asked, sent.unavailable = False, _missing(errand, error)
        return
    sent.take(made)


def _refused(error: Exception) -> bool:
    """Tell whether a server has answered, and will answer the same again."""
    status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None
    return status is not None and status < httpx.codes.INTERNAL_SERVER_ERROR and status != httpx.codes.TOO_MANY_REQUESTS


def said(error: Exception) -> str:
    """Write an error in a line, without the secrets that an address may hold.

    Args:
        error: of the server.

    Returns:
        What it says, or its name.
    """
    return without_secrets(" ".join(str(error).split())) or type(error).__name__


def _missing(errand: Errand, error: ObjectNotFound) -> str:
    if "work pool" in str(error).lower() or "work_pool" in str(error).lower():
        return (
            f"the work pool of {errand.deployment} does not exist; make it: prefect work-pool create NAME --type TYPE"
        )
    return f"there is no deployment {errand.deployment}; make it: jitmatrix deploy"
