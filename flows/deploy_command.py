"""The command `jitmatrix deploy`: look at everything that deployments need, then let Prefect record them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kernels.errors import UsageError, unknown
from kernels.variables import ROOT

FILE = ROOT / "prefect.yaml"
"""The deployments, in the checkout."""


def deploy(
    *,
    name: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    create: Literal["process", "docker", "kubernetes"] | None = None,
) -> int:
    """Record the deployments of prefect.yaml on the Prefect server; nothing is recorded where something is missing.

    Args:
        name: record this deployment, such as bench/gpu, instead of all; may be repeated.
        create: create work pools that are not there, of this type, with the templates that the deployments need.
    """
    chosen = deployments(name or [])
    _prepare(chosen, create)
    short = [word for each in chosen for word in ("--name", each["name"])] if name else ["--all"]
    return _prefect("deploy", *short)


def deployments(names: Sequence[str]) -> list[dict[str, Any]]:
    """Read deployments from prefect.yaml.

    Args:
        names: of those to keep, as flow/name; empty keeps all.

    Returns:
        Their entries, in the order of the file.

    Raises:
        UsageError: there is no such deployment.
    """
    import yaml

    entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))["deployments"]
    known = {f"{entry['entrypoint'].rpartition('.')[2]}/{entry['name']}": entry for entry in entries}
    for each in names:
        if each not in known:
            raise unknown("deployment", each, known, "--name")
    return [entry for full, entry in known.items() if not names or full in names]


def _prepare(chosen: Sequence[dict[str, Any]], create: str | None) -> None:
    """See to it that each deployment's work pool is there, and can serve it."""
    from flows.deploying import KUBERNETES_TEMPLATE, Server, backends, pool_name, settled

    server = Server()
    wanted = backends(chosen)
    missing = [pool for pool in map(pool_name, wanted) if pool not in server.pools()]
    if missing and create is None:
        raise UsageError(
            f"no work pool {', '.join(missing)} at {server.address}: create them by adding "
            "--create process, --create docker or --create kubernetes"
        )
    for pool in missing:
        template = ("--base-job-template", str(KUBERNETES_TEMPLATE)) if create == "kubernetes" else ()
        if status := _prefect("work-pool", "create", pool, "--type", str(create), *template):
            raise UsageError(f"work pool {pool} was not created: Prefect's command ended with status {status}")
    pools = server.pools()
    for backend, env in wanted.items():
        settled(pools[pool_name(backend)], backend, env)


def _prefect(*arguments: str) -> int:
    sys.stdout.flush()
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    return subprocess.run(command, cwd=FILE.parent, check=False).returncode
