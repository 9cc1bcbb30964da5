"""The containers of docker work pools, as prefect-docker asks an engine for them."""

from __future__ import annotations

from typing import Any

import pytest
from prefect_docker.worker import DockerWorker, DockerWorkerJobConfiguration

from kernels.case import Backend
from tests.containers.jobs import pool, prepared


def container(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> DockerWorkerJobConfiguration:
    template = DockerWorker.get_default_base_job_template()
    return prepared(DockerWorkerJobConfiguration, pool("docker", backend, template), backend, monkeypatch)


@pytest.mark.parametrize("backend", list(Backend))
def test_a_container_writes_to_its_volume_and_tmp_alone(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    job = container(backend, monkeypatch)
    given: dict[str, Any] = job.container_create_kwargs or {}
    assert given["read_only"] is True
    assert given["tmpfs"] == {"/tmp": "rw,exec,nosuid,nodev,mode=1777"}
    assert job.volumes == ["jitmatrix:/var/lib/jitmatrix", "/run/lock:/run/lock"]
    assert given["uts_mode"] == "host"
    assert job.env["HOME"] == "/tmp"
    assert job.env["PREFECT_HOME"] == "/tmp/prefect"
    assert job.auto_remove
    assert job.mem_limit == job.memswap_limit
    assert job.image_pull_policy == "IfNotPresent"
    assert not any(name.startswith("AWS_") for name in job.env)


def test_rights_are_dropped_where_the_device_lets_them_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in (Backend.CPU, Backend.GPU):
        job = container(backend, monkeypatch)
        given: dict[str, Any] = job.container_create_kwargs or {}
        assert given["cap_drop"] == ["ALL"]
        assert given["security_opt"] == ["no-new-privileges"]
        assert not job.privileged


def test_a_gpu_is_asked_for_by_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {
        each: (container(each, monkeypatch).container_create_kwargs or {}).get("device_requests") for each in Backend
    }
    assert asked.pop(Backend.GPU) == [{"driver": "nvidia", "count": 1, "capabilities": [["gpu"]]}]
    assert set(asked.values()) == {None}
