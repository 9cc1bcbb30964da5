"""Deploying: what is missing stops it with its name, and what is recorded holds no secret."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from flows.deploy_command import deployments
from kernels.errors import UsageError
from tests.flows.conftest import PREFECT, ROOT
from tests.flows.prefect_server import PrefectServer, running

pytestmark = pytest.mark.faults

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIA-IN-NO-RECORD",
    "AWS_SECRET_ACCESS_KEY": "secret-in-no-record",
    "AWS_ENDPOINT_URL": "http://user:password-in-no-record@127.0.0.1:9",
    "SOME_TOKEN": "token-in-no-record",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with running(tmp_path_factory.mktemp("deploying"), SECRETS) as server:
        yield server


def api(server: PrefectServer, path: str, **query: Any) -> Any:
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(query).encode(), method="POST")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def recorded(server: PrefectServer) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in api(server, "/deployments/filter")}


def test_every_mistake_is_one_line_with_what_mends_it_and_records_nothing(server: PrefectServer) -> None:
    for variables, arguments, line in (
        ({"PREFECT_API_URL": ""}, (), "no Prefect server is named"),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, (), "no Prefect server answers there"),
        ({"PREFECT_API_URL": server.url.removesuffix("/api")}, (), "the address of a server ends with /api"),
        ({}, ("--name", "bench/cup"), "did you mean bench/cpu?"),
        ({}, ("--name", "bench/gpu"), "no work pool jitmatrix-gpu"),
        ({"JITMATRIX_HOME": ""}, ("--name", "bench/cpu", "--create", "process"), "JITMATRIX_HOME is not set"),
        ({"JITMATRIX_HOME": "here"}, ("--name", "bench/cpu"), "a path that begins with /"),
    ):
        said = server.jitmatrix("deploy", *arguments, status=2, **variables)
        (own,) = [each for each in said.splitlines() if each.startswith("jitmatrix: ")]
        assert line in own
    assert recorded(server) == {}


def test_a_container_pool_needs_an_image_and_a_pool_of_another_type_is_refused(server: PrefectServer) -> None:
    server.prefect("work-pool", "create", "jitmatrix-gpu", "--type", "docker")
    said = server.jitmatrix("deploy", "--name", "bench/gpu", status=2, JITMATRIX_IMAGE_GPU="")
    assert "jitmatrix: JITMATRIX_IMAGE_GPU is not set" in said
    done = subprocess.run(
        [*PREFECT, "--no-prompt", "deploy", "--name", "gpu"],
        env=server.environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "jitmatrix: JITMATRIX_IMAGE_GPU is not set" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    server.jitmatrix("deploy", "--name", "bench/gpu", JITMATRIX_IMAGE_GPU="registry.example.com/jitmatrix-gpu:1")
    gpu = recorded(server)["gpu"]
    assert gpu["job_variables"]["image"] == "registry.example.com/jitmatrix-gpu:1"
    assert gpu["job_variables"]["container_create_kwargs"]["device_requests"][0]["driver"] == "nvidia"
    server.prefect("work-pool", "create", "jitmatrix-tpu", "--type", "ecs")
    said = server.jitmatrix("deploy", "--name", "bench/tpu", status=2)
    assert "work pool jitmatrix-tpu is of type ecs" in said


def test_what_is_recorded_holds_no_secret_and_a_resumed_schedule_stays_so(server: PrefectServer) -> None:
    names = ("bench/cpu", "compact/daily", "report/weekly", "sweep/nightly", "sweep/on-demand")
    server.jitmatrix("deploy", "--create", "process", *(word for name in names for word in ("--name", name)))
    found = recorded(server)
    assert {"cpu", "daily", "weekly", "nightly", "on-demand"} <= found.keys()
    for path in ("/deployments/filter", "/work_pools/filter", "/variables/filter"):
        assert "in-no-record" not in json.dumps(api(server, path))
    assert not any(each["active"] for name in found for each in found[name]["schedules"])
    (schedule,) = found["nightly"]["schedules"]
    assert schedule["schedule"]["timezone"] == "Etc/UTC"
    server.prefect("deployment", "schedule", "resume", "sweep/nightly", schedule["id"])
    server.jitmatrix("deploy", "--name", "sweep/nightly")
    assert [each["active"] for each in recorded(server)["nightly"]["schedules"]] == [True]


def test_deployments_are_named_by_flow_and_name() -> None:
    assert [each["name"] for each in deployments(["sweep/nightly"])] == ["nightly"]
    with pytest.raises(UsageError, match="unknown deployment 'nightly'"):
        deployments(["nightly"])
