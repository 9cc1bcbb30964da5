"""What a deployment takes from Prefect: the results' root from a variable, what boto3 needs from a secret block."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.variables import Variable

from flows.orphan import outlive_worker
from flows.settings import settings
from kernels.errors import UsageError
from kernels.image import NAME

RESULTS = "jitmatrix_results"
"""Prefect variable with the root of the results; ``JITMATRIX_RESULTS`` and the flow's parameter win over it."""

STORAGE = "jitmatrix-s3"
"""Prefect secret block with a JSON object of boto3's variables, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL."""


def settle(results: str | None) -> str:
    """Choose the root of the results, and take a deployment's settings from Prefect where this is a run of one.

    What the secret block holds goes into this process's environment, where boto3 looks for it, and nowhere else: not
    into a parameter, a log or a result. A variable that is set already stays as it is.

    Args:
        results: the flow's parameter; None where it is not given.

    Returns:
        The parameter, else ``JITMATRIX_RESULTS``, else the Prefect variable, else the folder results.

    Raises:
        UsageError: the block holds something else.
    """
    kept = None
    if runtime.deployment.id is not None:
        outlive_worker()
        for name, value in _variables().items():
            os.environ.setdefault(name, value)
        kept = Variable.get(RESULTS)
        if digest := _digest():
            os.environ[NAME] = digest
    return results or os.environ.get("JITMATRIX_RESULTS") or (str(kept) if kept else settings().results)


def _digest() -> str | None:
    """Give the image that the worker was told to run, where its digest names it: an image cannot know its own."""
    if NAME not in os.environ or runtime.flow_run.id is None:
        return None
    client = get_client(sync_client=True)
    run = client.read_flow_run(UUID(str(runtime.flow_run.id)))
    given = (run.job_variables or {}).get("image")
    if given is None and run.deployment_id is not None:
        given = (client.read_deployment(run.deployment_id).job_variables or {}).get("image")
    return str(given) if given and "@sha256:" in str(given) else None


def _variables() -> Mapping[str, str]:
    try:
        block: Any = Secret.load(STORAGE)
        held = block.get()
    except ValueError:
        # There is no such block: the worker's own environment has what is needed.
        return {}
    try:
        value = json.loads(held) if isinstance(held, str) else held
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(str(name).startswith("AWS_") for name in value):
        raise UsageError(
            f'secret block {STORAGE}: give a JSON object of AWS_ variables, such as {{"AWS_PROFILE": "ci"}}'
        )
    return {str(name): str(each) for name, each in value.items()}
