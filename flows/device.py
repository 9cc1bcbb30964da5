"""One device, one benchmark, where a Prefect server is shared: a global concurrency limit over the machine's lock.

The limit is named by host and device, and made when it is missing: the server shows it, and it holds between containers
of one host that do not share the folder of locks, where ``JITMATRIX_HOST`` names the host. Prefect's own context for a
limit is not used: it ends the flow when its lease cannot be renewed, and a benchmark outlives its server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import copy_context
from uuid import UUID

import httpx
from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, GlobalConcurrencyLimitUpdate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import ConcurrencyLeaseHolder, FlowRun, StateType
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from flows.server import shared
from flows.settings import settings
from kernels import device_lock
from kernels.device_lock import Claim, HeldError

LEASE_S = 60.0
"""Of a slot, the shortest that Prefect grants: so long a killed run keeps it."""

RENEW_S = 20.0
POLL_S = 2.0

ABANDONED_S = 90.0
"""So long no run says that it holds the slot until it is taken for lost: a server forgets its leases when it ends, and
counts their slots for ever. Longer than a lease, which would free the slot a second time."""

LIMIT, LEASE = "jitmatrix.limit", "jitmatrix.lease"
"""Labels of a flow run that holds a slot: the limit's name, and the lease, by which others free it if the run died."""

_AWAY = (httpx.HTTPError, RuntimeError, OSError)
"""What a client raises when its server is away, or refuses."""


class DeviceClaim(Claim):
    """A claim that takes the server's limit before the lock of the machine."""

    def take(self, name: str, end: float, stack: contextlib.ExitStack) -> None:
        """Take a device.

        Args:
            name: of the device.
            end: until when it is waited for, in seconds of the monotonic clock.
            stack: gives the device back.

        Raises:
            HeldError: another run held it until then.
            UsageError: the lock cannot be used, or a setting is wrong.
        """
        if shared():
            limit = f"jitmatrix-{settings().host}-{name}"
            told, lost = False, _Lost()
            try:
                client = stack.enter_context(get_client(sync_client=True))
                _make(client, limit)
                while (lease := _taken(client, limit)) is None:
                    if _freed(client, limit):
                        continue
                    run = _holder(client, limit)
                    if lost.is_abandoned(run is None):
                        client.update_global_concurrency_limit(limit, GlobalConcurrencyLimitUpdate(active_slots=0))
                        self.say(f"{limit}: no run holds the slot that the server counts; it is free again")
                        continue
                    told = self.wait(limit, run or device_lock.holder(name), end, told)
                    time.sleep(POLL_S)
                stack.enter_context(_kept(client, lease))
                if run_id := runtime.flow_run.id:
                    client.update_flow_run_labels(UUID(run_id), {LIMIT: limit, LEASE: str(lease)})
            except HeldError:
                raise
            except _AWAY as error:
                reason = " ".join(str(error).split())
                self.say(f"Prefect's limit {limit} cannot be had ({reason}); the lock of this machine holds without it")
        super().take(name, end, stack)


class _Lost:
    """Tells since when a slot has been held by nobody."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_abandoned(self, nobody: bool) -> bool:
        now = time.monotonic()
        self._since = (self._since or now) if nobody else None
        return self._since is not None and now - self._since > ABANDONED_S


def _make(client: SyncPrefectClient, limit: str) -> None:
    # Two runs may both find it missing: one of them makes it.
    with contextlib.suppress(ObjectAlreadyExists):
        try:
            client.read_global_concurrency_limit_by_name(limit)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=limit, limit=1))


def _taken(client: SyncPrefectClient, limit: str) -> UUID | None:
    """Take the slot; gives its lease, or None where another has it."""
    run = runtime.flow_run.id
    holder = ConcurrencyLeaseHolder(type="flow_run", id=UUID(run)) if run else None
    try:
        response = client.increment_concurrency_slots_with_lease([limit], 1, "concurrency", LEASE_S, holder)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.LOCKED:
            return None
        raise
    granted = ConcurrencyLimitWithLeaseResponse.model_validate(response.json())
    if not granted.limits:
        raise RuntimeError("somebody removed it in this moment")
    return granted.lease_id


@contextlib.contextmanager
def _kept(client: SyncPrefectClient, lease: UUID) -> Iterator[None]:
    """Renew a lease for the block, and give it back."""
    stop = threading.Event()

    def renew() -> None:
        with get_client(sync_client=True) as own:
            while not stop.wait(RENEW_S):
                # A server that is away may be back the next time; a lease that ended is not missed: the lock holds.
                with contextlib.suppress(*_AWAY):
                    own.renew_concurrency_lease(lease, LEASE_S)

    # With this context's settings: they name the server.
    thread = threading.Thread(target=copy_context().run, args=(renew,), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        with contextlib.suppress(*_AWAY):
            client.release_concurrency_slots_with_lease(lease)


def _holder(client: SyncPrefectClient, limit: str) -> str | None:
    """Name the flow run that holds a limit's slot."""
    found = _labelled(client, limit, StateType.RUNNING, StateType.CANCELLING)
    return f"flow run {found[0].name}" if found else None


def _freed(client: SyncPrefectClient, limit: str) -> bool:
    """Free the slot of runs that died with it; their leases would keep it a while. Tells whether there were any."""
    dead = _labelled(client, limit, StateType.CRASHED, StateType.CANCELLED)
    for run in dead:
        # Of a lease that has ended this frees nothing.
        client.release_concurrency_slots_with_lease(UUID(str(run.labels[LEASE])))
        client.update_flow_run_labels(run.id, {LIMIT: ""})
    return bool(dead)


def _labelled(client: SyncPrefectClient, limit: str, *kinds: StateType) -> list[FlowRun]:
    """Find the flow runs that say they hold a limit's slot, of some types of state."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=list(kinds)))
    runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=state), sort=FlowRunSort.START_TIME_DESC)
    return [run for run in runs if run.labels.get(LIMIT) == limit]
