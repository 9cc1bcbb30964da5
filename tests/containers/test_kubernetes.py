"""The jobs of work pools on Kubernetes: as prefect-kubernetes renders them, and as Kubernetes takes them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
from prefect_kubernetes.worker import KubernetesWorker, KubernetesWorkerJobConfiguration

from flows.deploying import settled
from kernels.case import Backend
from kernels.errors import UsageError
from tests.containers.jobs import BENCHES, IMAGE, KUBERNETES, pool, prepared

MINORS = sorted(
    {tuple(int(part) for part in version.split(".")[:2]) for version in kubernetes_validate.utils.all_versions()}
)[-3:]

BACKENDS = list(Backend)


@pytest.fixture
def job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KubernetesWorkerJobConfiguration:
    """The job of a backend's deployment; without a backend, that of cpu."""
    backend = getattr(request, "param", Backend.CPU)
    return prepared(KubernetesWorkerJobConfiguration, pool("kubernetes", backend, KUBERNETES), backend, monkeypatch)


def of_each(backends: list[Backend]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("job", backends, indirect=True)


def pod(job: KubernetesWorkerJobConfiguration) -> dict[str, Any]:
    return dict(job.job_manifest["spec"]["template"]["spec"])


def container(job: KubernetesWorkerJobConfiguration) -> dict[str, Any]:
    (only,) = pod(job)["containers"]
    return dict(only)


def strict(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Take out what Prefect wants in every pod and Kubernetes has in the job."""
    found = copy.deepcopy(dict(manifest))
    for name in ("completions", "parallelism"):
        assert found["spec"]["template"]["spec"].pop(name) == 1
    return found


@pytest.mark.parametrize("minor", MINORS, ids=lambda minor: f"{minor[0]}.{minor[1]}")
@of_each(BACKENDS)
def test_kubernetes_knows_every_field_of_a_job(job: KubernetesWorkerJobConfiguration, minor: tuple[int, int]) -> None:
    wanted = f"{minor[0]}.{minor[1]}"
    assert kubernetes_validate.validate(strict(job.job_manifest), wanted, strict=True) == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resources", {"limit": {"nvidia.com/gpu": 1}}),
        ("tolerations", [{"key": "nvidia.com/gpu", "operater": "Exists"}]),
        ("node_selector", ["cloud.google.com/gke-tpu-topology"]),
        ("security_context", {"runAsNonRoot": "yes"}),
        ("spool", {"name": "spool", "emptydir": {}}),
        ("env_from", [{"secret": {"name": "jitmatrix-s3"}}]),
    ],
)
def test_a_variable_that_kubernetes_would_not_understand_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    found = pool("kubernetes", Backend.GPU, KUBERNETES)
    job = prepared(KubernetesWorkerJobConfiguration, found, Backend.GPU, monkeypatch, **{name: value})
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(strict(job.job_manifest), "{}.{}".format(*MINORS[-1]), strict=True)


@of_each(BACKENDS)
def test_a_job_is_tried_once_and_cleared_away(job: KubernetesWorkerJobConfiguration) -> None:
    spec = job.job_manifest["spec"]
    # Prefect runs again what a node's end took; Kubernetes itself starts nothing a second time.
    assert (spec["backoffLimit"], pod(job)["restartPolicy"]) == (0, "Never")
    assert spec["ttlSecondsAfterFinished"] == 86400
    # Prefect's default, 60 s, is less than the time in which a node pulls an image of several gigabytes.
    assert job.pod_watch_timeout_seconds == 1800


@of_each(BACKENDS)
def test_a_pod_runs_the_backends_image(job: KubernetesWorkerJobConfiguration, request: pytest.FixtureRequest) -> None:
    backend = request.node.callspec.params["job"]
    assert container(job)["image"] == IMAGE.format(backend)
    assert container(job)["imagePullPolicy"] == "IfNotPresent"
    # Arguments alone: the entry point is the image's.
    assert "command" not in container(job)
    assert container(job)["args"][0] in ("prefect", "python")


@of_each(BACKENDS)
def test_a_pod_can_write_to_tmp_shared_memory_and_the_spool_alone(job: KubernetesWorkerJobConfiguration) -> None:
    assert container(job)["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["name"]: mount for mount in container(job)["volumeMounts"]}
    assert {mount["mountPath"] for mount in mounts.values()} == {"/tmp", "/dev/shm", "/var/lib/jitmatrix"}
    assert not any(mount.get("readOnly") for mount in mounts.values())
    volumes = {volume["name"]: volume for volume in pod(job)["volumes"]}
    assert volumes.keys() == mounts.keys()
    assert volumes["shared-memory"]["emptyDir"]["medium"] == "Memory"
    # Of the machine itself a pod sees no folder.
    assert not any("hostPath" in volume for volume in volumes.values())
    env = {each["name"]: each.get("value") for each in container(job)["env"]}
    assert (env["HOME"], env["PREFECT_HOME"]) == ("/tmp", "/tmp/prefect")


def test_results_can_wait_in_a_volume_that_outlives_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = {"name": "spool", "persistentVolumeClaim": {"claimName": "jitmatrix"}}
    found = pool("kubernetes", Backend.CPU, KUBERNETES)
    job = prepared(KubernetesWorkerJobConfiguration, found, Backend.CPU, monkeypatch, spool=claim)
    assert claim in pod(job)["volumes"]
    kubernetes_validate.validate(strict(job.job_manifest), "{}.{}".format(*MINORS[-1]), strict=True)


@of_each(BACKENDS)
def test_a_pod_is_told_its_node_whose_devices_its_runs_wait_for(job: KubernetesWorkerJobConfiguration) -> None:
    (host,) = [each for each in container(job)["env"] if each["name"] == "JITMATRIX_HOST"]
    assert host == {"name": "JITMATRIX_HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}


@of_each(BACKENDS)
def test_credentials_come_from_a_secret_and_none_of_the_clusters_own_is_mounted(
    job: KubernetesWorkerJobConfiguration,
) -> None:
    assert container(job)["envFrom"] == [{"secretRef": {"name": "jitmatrix-s3", "optional": True}}]
    assert not any(each["name"].startswith("AWS_") for each in container(job)["env"])
    assert pod(job)["automountServiceAccountToken"] is False


@of_each([Backend.CPU, Backend.GPU])
def test_a_pod_runs_as_the_images_user_and_without_rights(job: KubernetesWorkerJobConfiguration) -> None:
    assert pod(job)["securityContext"] == {
        "fsGroup": 10001,
        "runAsGroup": 10001,
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    own = container(job)["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["capabilities"]) == (False, {"drop": ["ALL"]})


@of_each([Backend.TPU])
def test_a_pod_with_tpus_is_root_with_one_capability(job: KubernetesWorkerJobConfiguration) -> None:
    assert pod(job)["securityContext"]["runAsUser"] == 0
    own = container(job)["securityContext"]
    assert own["capabilities"] == {"drop": ["ALL"], "add": ["SYS_RESOURCE"]}
    assert own["allowPrivilegeEscalation"] is False
    assert "privileged" not in own


@pytest.mark.parametrize(
    ("job", "cpu", "memory", "shared", "device"),
    [
        (Backend.CPU, "4", "16Gi", "1Gi", {}),
        (Backend.GPU, "8", "64Gi", "8Gi", {"nvidia.com/gpu": 1}),
        (Backend.TPU, "24", "128Gi", "8Gi", {"google.com/tpu": 4}),
    ],
    indirect=["job"],
)
def test_a_pod_asks_for_whole_processors_memory_and_its_device(
    job: KubernetesWorkerJobConfiguration, cpu: str, memory: str, shared: str, device: dict[str, int]
) -> None:
    resources = container(job)["resources"]
    assert resources["limits"] == {"cpu": cpu, "memory": memory, **device}
    # Equal, and in whole processors: the class of pods that can have processors of their own.
    assert resources["requests"] == resources["limits"]
    volumes = {volume["name"]: volume for volume in pod(job)["volumes"]}
    assert volumes["shared-memory"]["emptyDir"]["sizeLimit"] == shared


@pytest.mark.parametrize(
    ("job", "selector", "taint"),
    [
        (Backend.CPU, {}, []),
        (Backend.GPU, {}, ["nvidia.com/gpu"]),
        (
            Backend.TPU,
            {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "2x2",
            },
            ["google.com/tpu"],
        ),
    ],
    indirect=["job"],
)
def test_a_pod_goes_to_the_nodes_that_have_its_device(
    job: KubernetesWorkerJobConfiguration, selector: dict[str, str], taint: list[str]
) -> None:
    assert pod(job)["nodeSelector"] == selector
    assert pod(job)["tolerations"] == [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in taint]


@pytest.mark.parametrize("entry", BENCHES.values(), ids=str)
def test_a_topology_has_as_many_chips_as_a_pod_asks_for(entry: dict[str, Any]) -> None:
    variables = entry["work_pool"]["job_variables"]
    topology = variables.get("node_selector", {}).get("cloud.google.com/gke-tpu-topology", "0x0")
    across, down = (int(part) for part in topology.split("x"))
    assert variables["resources"]["limits"].get("google.com/tpu", 0) == across * down


def test_the_template_has_every_variable_of_prefects_own() -> None:
    theirs = KubernetesWorker.get_default_base_job_template()["variables"]["properties"]
    # `resources` has these four, and accelerators besides.
    resources = {"cpu_limit", "cpu_request", "memory_limit", "memory_request"}
    assert theirs.keys() - resources <= KUBERNETES["variables"]["properties"].keys()


def test_a_pool_with_prefects_own_template_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_IMAGE_TPU", IMAGE.format("tpu"))
    template = KubernetesWorker.get_default_base_job_template()
    with pytest.raises(UsageError) as error:
        settled(pool("kubernetes", Backend.TPU, template), Backend.TPU, {})
    line = str(error.value)
    assert line.startswith("work pool jitmatrix-tpu: its base job template has no env_from, resources, shared_memory")
    assert line.endswith("prefect work-pool update jitmatrix-tpu --base-job-template containers/kubernetes.json")
