"""Jobs as a worker would start them: prefect.yaml's deployments through a work pool's template, with no server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.utilities.templating import apply_values
from prefect.workers.base import BaseJobConfiguration

from flows.deploy_command import deployments
from flows.deploying import KUBERNETES_TEMPLATE, backends, pool_name, settled
from tests.flows.conftest import ROOT

BENCHES: Mapping[str, dict[str, Any]] = {
    entry["name"]: entry for entry in deployments([]) if entry["entrypoint"] == "flows.bench.bench"
}
"""The deployments that measure, by backend."""

KUBERNETES: dict[str, Any] = json.loads((ROOT / KUBERNETES_TEMPLATE).read_text(encoding="utf-8"))

IMAGE = "registry.example.com/jitmatrix-{}:1"

Job = TypeVar("Job", bound=BaseJobConfiguration)


def pool(kind: str, backend: str, template: dict[str, Any]) -> WorkPool:
    """Describe a backend's work pool as a server would."""
    return WorkPool(name=pool_name(backend), type=kind, base_job_template=template, default_queue_id=uuid4())


def prepared(kind: type[Job], found: WorkPool, backend: str, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> Job:
    """Render the job of a run of bench, with some job variables changed."""
    monkeypatch.setenv(f"JITMATRIX_IMAGE_{backend.upper()}", IMAGE.format(backend))
    entry = BENCHES[backend]
    chosen = settled(found, backend, backends([entry])[backend])
    variables = apply_values(entry["work_pool"]["job_variables"], {"infrastructure": chosen})
    assert isinstance(variables, dict)
    # Nobody answers there: a template that needed a block or a variable of a server would fail.
    client = PrefectClient("http://127.0.0.1:9/api")
    job = asyncio.run(kind.from_template_and_values(found.base_job_template, {**variables, **changed}, client=client))
    job.prepare_for_flow_run(FlowRun(flow_id=uuid4(), name="odd-name"))
    return job
