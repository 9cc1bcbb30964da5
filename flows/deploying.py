"""What a deployment needs before it is recorded: build steps of prefect.yaml; what is missing stops it in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from kernels.case import Backend
from kernels.errors import UsageError, unknown

HOME = "JITMATRIX_HOME"
"""The checkout on the machine of a process worker, in which its runs work."""

CONTAINER_HOME = "/var/lib/jitmatrix"
"""Where runs work in a container: the working directory of every image."""

KUBERNETES_TEMPLATE = Path("containers") / "kubernetes.json"
"""Base job template of kubernetes work pools, in the checkout."""

NEEDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "docker": {"": ("image", "env"), Backend.GPU: ("container_create_kwargs",), Backend.TPU: ("privileged",)},
    "kubernetes": {
        "": ("image", "env", "env_from", "resources", "shared_memory"),
        Backend.GPU: ("tolerations",),
        Backend.TPU: ("container_security_context", "node_selector", "security_context", "tolerations"),
    },
}
"""Job variables without which prefect.yaml asks in vain: by type of work pool, for all backends ('') and for one."""


class Server:
    """The Prefect server that deployments are recorded on."""

    def __init__(self) -> None:
        """Read its address from Prefect's settings.

        Raises:
            UsageError: none is named. Prefect would start a server of its own, and the records be gone with it.
        """
        self.address = get_current_settings().api.url or ""
        if not self.address:
            raise UsageError(
                "no Prefect server is named: start one with `prefect server start`, and say where it is with "
                "export PREFECT_API_URL=http://127.0.0.1:4200/api; or use `prefect cloud login`"
            )

    def pools(self) -> dict[str, WorkPool]:
        """Ask for the work pools.

        Returns:
            All, by name.

        Raises:
            UsageError: there is no server at the address, or it lets nobody in with this key.
        """
        try:
            with get_client(sync_client=True) as client:
                return {pool.name: pool for pool in client.read_work_pools()}
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status in (401, 403):
                raise UsageError(
                    f"PREFECT_API_URL={self.address}: the server refuses this key (HTTP {status}); set PREFECT_API_KEY,"
                    " or PREFECT_API_AUTH_STRING for a server with a password"
                ) from None
            raise UsageError(
                f"PREFECT_API_URL={self.address}: what answers there (HTTP {status}) is no Prefect API; "
                "the address of a server ends with /api"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise UsageError(
                f"PREFECT_API_URL={self.address}: no Prefect server answers there ({error}); "
                "start one with `prefect server start`, or mend the address, such as http://127.0.0.1:4200/api"
            ) from None


def infrastructure(backend: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Give prefect.yaml what depends on the type of a backend's work pool; a build step.

    Args:
        backend: cpu, gpu or tpu.
        env: variables of a container in which root's file system can be read only.

    Returns:
        What the file's placeholders take: ``directory`` to work in, ``env``, and ``image``, none for a process.

    Raises:
        SystemExit: something is missing; the line that says what has been written to standard error, where Prefect
            would write a traceback around it.
    """
    try:
        name, pools = pool_name(backend), Server().pools()
        if name not in pools:
            raise UsageError(
                f"no work pool {name}; create it, with `jitmatrix deploy --create process` (or docker, kubernetes), or "
                "record the deployments of other backends alone: jitmatrix deploy --name bench/cpu"
            )
        return settled(pools[name], backend, env)
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        raise SystemExit(2) from None


def schedule(deployment: str) -> dict[str, bool]:
    """Say whether a deployment's schedule is to be active: what is deployed again stays as it was; a build step.

    Prefect replaces schedules with those of the file: one that was resumed would be paused by the next deployment.

    Args:
        deployment: such as ``compact/daily``.

    Returns:
        ``active``: False where there was none.
    """
    try:
        found = get_client(sync_client=True).read_deployment_by_name(deployment)
    except ObjectNotFound:
        return {"active": False}
    return {"active": any(each.active for each in found.schedules)}


def settled(pool: WorkPool, backend: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Choose directory, environment and image for a work pool.

    Args:
        pool: the backend's.
        backend: cpu, gpu or tpu.
        env: variables of a container.

    Returns:
        As ``infrastructure``.

    Raises:
        UsageError: a variable is not set, or the pool is of a type, or has a template, that cannot serve the backend.
    """
    if pool.type == "process":
        return {"directory": _checkout(pool), "env": {}, "image": None}
    known = set((pool.base_job_template.get("variables") or {}).get("properties") or {})
    if pool.type not in NEEDED and (backend != Backend.CPU or "image" not in known):
        raise UsageError(
            f"work pool {pool.name} is of type {pool.type}, which prefect.yaml cannot ask for a {backend}: "
            f"choose from process, {', '.join(NEEDED)}; delete the pool, and create it with one of these as --type"
        )
    needed = NEEDED.get(pool.type, {})
    if missing := [name for name in (*needed.get("", ()), *needed.get(backend, ())) if name not in known]:
        template = f" --base-job-template {KUBERNETES_TEMPLATE}" if pool.type == "kubernetes" else ""
        raise UsageError(
            f"work pool {pool.name}: its base job template has no {', '.join(missing)}, which would be left out of "
            f"every job; set it: prefect work-pool update {pool.name}{template or ' --base-job-template FILE'}"
        )
    return {"directory": CONTAINER_HOME, "env": dict(env), "image": _image(pool, backend)}


def backends(deployments: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    """Collect the backends of which deployments use the work pools.

    Args:
        deployments: entries of prefect.yaml.

    Returns:
        By backend, the variables of its containers.
    """
    steps = [step for entry in deployments for step in entry["build"]]
    found = [step["flows.deploying.infrastructure"] for step in steps if "flows.deploying.infrastructure" in step]
    return {each["backend"]: each["env"] for each in found}


def pool_name(backend: str) -> str:
    """Name a backend's work pool.

    Args:
        backend: cpu, gpu or tpu.

    Returns:
        Such as ``jitmatrix-gpu``.

    Raises:
        UsageError: there is no such backend.
    """
    if backend not in list(Backend):
        raise unknown("backend", backend, Backend, "prefect.yaml, build step flows.deploying.infrastructure")
    return f"jitmatrix-{backend}"


def _checkout(pool: WorkPool) -> str:
    given = os.environ.get(HOME, "")
    if not given:
        raise UsageError(
            f"{HOME} is not set: the checkout on the machine of the worker of {pool.name}, "
            f'a process work pool; export {HOME}="$PWD" where it is this one'
        )
    # Only its form: the worker's machine can be another one.
    if not Path(given).is_absolute():
        raise UsageError(f"{HOME}={given}: a path that begins with /, for runs begin in another folder")
    return given


def _image(pool: WorkPool, backend: str) -> str:
    name = f"JITMATRIX_IMAGE_{backend.upper()}"
    image = os.environ.get(name, "").strip()
    if not image:
        raise UsageError(
            f"{name} is not set: the image in which {pool.name}, a work pool of type {pool.type}, runs its jobs; "
            f"export {name}=REGISTRY/jitmatrix-{backend}:TAG"
        )
    return image
