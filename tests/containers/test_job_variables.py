"""The job variables of prefect.yaml: a work pool drops without a word what its template does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from docker.models.containers import RUN_CREATE_KWARGS, RUN_HOST_CONFIG_KWARGS
from docker.types import HostConfig
from prefect.workers.process import ProcessWorker
from prefect_docker.worker import DockerWorker, DockerWorkerJobConfiguration

from flows.deploy_command import deployments
from tests.containers.jobs import KUBERNETES

ENTRIES: Mapping[str, dict[str, Any]] = {
    f"{entry['entrypoint'].rpartition('.')[2]}/{entry['name']}": entry for entry in deployments([])
}

TEMPLATES = (
    ProcessWorker.get_default_base_job_template(),
    DockerWorker.get_default_base_job_template(),
    KUBERNETES,
)
"""Of the types of work pools that prefect.yaml serves."""

DEVICE_REQUEST = {"driver", "count", "device_ids", "capabilities", "options"}
"""What Docker's client reads of a device request; it leaves anything else out."""


def variables(name: str) -> dict[str, Any]:
    return dict(ENTRIES[name]["work_pool"]["job_variables"])


def unknown(given: Mapping[str, Any]) -> list[str]:
    """Job variables that no pool's template names, and settings of a container that Docker's client does not know."""
    named = {each for template in TEMPLATES for each in template["variables"]["properties"]}
    settings = {*RUN_CREATE_KWARGS, *RUN_HOST_CONFIG_KWARGS} - {"version"}
    inner = given.get("container_create_kwargs", {})
    requests = {name for request in inner.get("device_requests", ()) for name in request}
    return [*sorted({*given} - named), *sorted({*inner} - settings), *sorted(requests - DEVICE_REQUEST)]


def asked(given: Mapping[str, Any]) -> HostConfig:
    """What an engine is asked for, of what concerns its machine; values that Docker's client does not take raise."""
    inner = given.get("container_create_kwargs", {})
    chosen = {name: value for name, value in inner.items() if name in RUN_HOST_CONFIG_KWARGS}
    outer = ("mem_limit", "memswap_limit", "privileged", "network_mode")
    chosen |= {name: given[name] for name in outer if name in given}
    return HostConfig(version="1.44", **chosen)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_job_variable_is_one_of_a_pools_template(name: str) -> None:
    assert unknown(variables(name)) == []


@pytest.mark.parametrize("name", ENTRIES)
def test_dockers_client_takes_every_setting_of_a_container(name: str) -> None:
    config = asked(variables(name))
    assert config["ReadonlyRootfs"] is True
    assert config["Memory"] == config["MemorySwap"] > 0


@pytest.mark.parametrize("name", ENTRIES)
def test_no_setting_of_a_container_is_dropped_for_a_job_variable_of_its_name(name: str) -> None:
    inner = variables(name)["container_create_kwargs"]
    # What the worker has a variable for, it takes from there alone.
    assert sorted({*inner} & {*DockerWorkerJobConfiguration.model_fields}) == []


@pytest.mark.parametrize("name", ["bench/cpu", "bench/gpu", "bench/tpu"])
@pytest.mark.parametrize("wrong", ["mem_limits", "tolerations_", "image_pull_polcy", "volume", "pod_watch_timeout"])
def test_a_misspelt_job_variable_is_found(name: str, wrong: str) -> None:
    assert unknown({**variables(name), wrong: "1"}) == [wrong]


@pytest.mark.parametrize("name", ["bench/cpu", "bench/gpu", "bench/tpu"])
@pytest.mark.parametrize("wrong", ["readonly", "cap_drops", "device_request", "shmsize"])
def test_a_misspelt_setting_of_a_container_is_found(name: str, wrong: str) -> None:
    given = variables(name)
    inner = {**given["container_create_kwargs"], wrong: "1"}
    assert unknown({**given, "container_create_kwargs": inner}) == [wrong]


def test_a_gpu_that_is_asked_for_in_other_words_is_found() -> None:
    given = variables("bench/gpu")
    (request,) = given["container_create_kwargs"]["device_requests"]
    assert asked(given)["DeviceRequests"] == [
        {"Driver": "nvidia", "Count": 1, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}
    ]
    wrong = {**given, "container_create_kwargs": {"device_requests": [{**request, "counts": 1}]}}
    assert unknown(wrong) == ["counts"]
    wrong["container_create_kwargs"]["device_requests"] = [{**request, "capabilities": "gpu"}]
    with pytest.raises(ValueError, match="capabilities"):
        asked(wrong)
