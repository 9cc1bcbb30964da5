"""The cpu image, built, and run as by hand and by a docker worker; ``make test-containers`` runs this."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL, temporary_settings

from containers import base
from containers.build import BUILDS
from containers.build import build as build_image
from containers.engine import Engine
from containers.run import HARDENING
from containers.variant import Variant
from kernels.errors import UsageError
from tests.flows.conftest import PREFECT, ROOT
from tests.flows.prefect_server import end, running
from tests.flows.seaweed import ADMIN, REGION, Bucket, SeaweedServer

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif("JITMATRIX_CONTAINERS" not in os.environ, reason="run by make test-containers"),
]

HARDENED = (*HARDENING, "--pids-limit=512")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the user of the image may write to."""
    made = tmp_path / "state"
    made.mkdir()
    made.chmod(0o777)
    return made


def run(engine: Engine, image: str, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [engine.name, "run", "--rm", *HARDENED, *options, image, *words]
    # Podman leaves an empty file `oom` where it was called when a container is out of memory.
    with tempfile.TemporaryDirectory() as here:
        return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=600, check=False)


def test_an_image_is_described_beside_its_build(image: str, engine: Engine) -> None:
    beside = BUILDS / image.replace(":", "-")
    told = json.loads(beside.with_name(f"{beside.name}.json").read_text())
    assert "sha256:" in told["digest"]
    assert told["nbytes"] < 1.2e9, "the core image has grown"
    bill = json.loads(beside.with_name(f"{beside.name}.cdx.json").read_text())
    parts = {part.get("purl", "").partition("@")[0] for part in bill["components"]}
    assert {"pkg:pypi/jax", "pkg:pypi/numba", "pkg:deb/debian/libc6"} <= parts
    # What is mounted for the build is not in the image.
    properties = [each for part in bill["components"] for each in part.get("properties", ())]
    places = {each["value"].lstrip("/").partition("/")[0] for each in properties if ":path" in each["name"]}
    assert "opt" in places
    assert "tools" not in places
    labels = json.loads(subprocess.check_output([engine.name, "image", "inspect", image]))[0]["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] in image
    assert labels["org.opencontainers.image.revision"] == told["commit"]


def test_an_image_holds_no_secret_no_cache_and_no_set_user_id(image: str, engine: Engine) -> None:
    look = (
        r"find / -xdev \( -type f -perm /6000 -o -name '*.pem' -path '*/private/*' -o -name id_rsa -o -name .netrc"
        r" -o -name .pypirc -o -name credentials -path '*/.aws/*' -o -name pip.conf -o -name .git \) -print;"
        r" ls -A /root /root/.cache/pip /run/secrets /build 2>/dev/null | grep -v '^$' || true;"
        r" env | grep -iE 'secret|password|token' || true"
    )
    done = subprocess.run(
        [engine.name, "run", "--rm", "--network=none", "--user=0", "--entrypoint=sh", image, "-c", look],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    left = [line for line in done.stdout.splitlines() if line not in (".bashrc", ".profile", "/root:")]
    assert left == []


def test_the_health_check_computes_on_the_backend_and_on_no_other(image: str, engine: Engine) -> None:
    offline = ("--network=none",)
    well = run(engine, image, "python", "-m", "kernels.health", options=offline)
    assert (well.returncode, well.stdout[:21]) == (0, "jax computes on cpu: ")
    absent = run(engine, image, "python", "-m", "kernels.health", options=(*offline, "--env=JITMATRIX_BACKEND=gpu"))
    said = [line for line in absent.stderr.splitlines() if "jitmatrix: " in line]
    assert (absent.returncode, absent.stdout, len(said)) == (1, "", 1)
    assert said[0].startswith("jitmatrix: jax has no usable gpu device here")


def test_bench_runs_as_a_user_without_rights_network_or_a_root_that_it_could_write(
    image: str, engine: Engine, folder: Path
) -> None:
    limits = ("--network=none", "--memory=2g", "--cpus=1", f"--volume={folder}:/var/lib/jitmatrix")
    words = "jitmatrix bench --matrix smoke --kernel double --framework numpy --framework jax --quick"
    done = run(engine, image, *words.split(), options=limits)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 planned = 3 ok + 0 failed + 0 skipped" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    written = list(folder.glob("results/timings/*/*.parquet"))
    assert [path.stat().st_uid for path in written] == [10001]
    rows = pq.ParquetFile(written[0]).read().to_pandas()
    assert set(rows[rows.phase == "steady"].status) == {"ok"}
    (row,) = pq.ParquetFile(next(folder.glob("results/runs/*/*.parquet"))).read().to_pylist()
    # By hand an image gives the name that its content has; only who starts it knows a digest.
    assert re.fullmatch(rf"{re.escape(image)}-[0-9a-f]{{12}}", row["image"])
    told = json.loads(row["environment"])
    assert (told["memory_limit_nbytes"], told["cpu_quota"]) == (2 * 2**30, 1.0)
    assert {"jax", "numpy", "prefect", "pyarrow"} <= set(told["packages"])
    assert re.fullmatch("[0-9a-f]{40}", row["commit"])


def test_a_case_beyond_the_containers_memory_costs_one_row(image: str, engine: Engine, folder: Path) -> None:
    # Shared memory, which no limit of a process counts: the system has to end somebody.
    kernels = ROOT / "tests/kernels/cheats"
    limits = ("--network=none", "--memory=1g", "--memory-swap=1g", f"--volume={folder}:/var/lib/jitmatrix")
    limits += (f"--volume={kernels}:/kernels:ro", "--env=PYTHONPATH=/kernels")
    words = "jitmatrix bench --kernel hungry:SHARED --kernel double --framework numpy --size S --dtype float32 --quick"
    done = run(engine, image, *words.split(), options=limits)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 planned = 1 ok + 1 failed + 0 skipped" in done.stdout
    rows = pd.concat(pq.ParquetFile(path).read().to_pandas() for path in folder.glob("results/timings/*/*.parquet"))
    steady = rows[rows.phase == "steady"].set_index("kernel")
    assert dict(steady.status) == {"shared": "killed", "double": "ok"}
    assert "memory" in steady.loc["shared", "reason"]


def test_a_docker_worker_runs_the_deployment_and_results_reach_s3(
    image: str, engine: Engine, socket: str, tmp_path: Path
) -> None:
    (tmp_path / "seaweed").mkdir()
    seaweed = SeaweedServer(tmp_path / "seaweed")
    seaweed.start()
    try:
        bucket = Bucket.new(seaweed)
        with running(tmp_path, {"DOCKER_HOST": socket, "JITMATRIX_RESULTS": ""}) as server:
            secrets = {
                "AWS_ACCESS_KEY_ID": ADMIN[0],
                "AWS_SECRET_ACCESS_KEY": ADMIN[1],
                "AWS_DEFAULT_REGION": REGION,
                "AWS_ENDPOINT_URL": seaweed.endpoint,
                "AWS_EC2_METADATA_DISABLED": "true",
            }
            server.prefect("work-pool", "create", "jitmatrix-cpu", "--type", "docker")
            with temporary_settings({PREFECT_API_URL: server.url}):
                Secret(value=json.dumps(secrets)).save("jitmatrix-s3")
            digest = engine.digest(image)
            server.prefect("--no-prompt", "deploy", "--name", "cpu", JITMATRIX_IMAGE_CPU=digest)
            worker = server.spawn(
                [*PREFECT, "worker", "start", "--pool", "jitmatrix-cpu", "--type", "docker"], "worker"
            )
            try:
                # Loopback is where the server and the storage of this test are; a limit of memory is the machine's own.
                here = (
                    "network_mode=host",
                    "image_pull_policy=Never",
                    "mem_limit=4g",
                    "memswap_limit=4g",
                    "volumes=[]",
                )
                chosen = [word for each in here for word in ("--job-variable", each)]
                filters = ("matrix=smoke", 'kernel=["double"]', 'framework=["numpy"]', "rounds=1")
                asked = [word for each in (*filters, f"results=s3://{bucket.name}/r") for word in ("--param", each)]
                told = server.prefect("deployment", "run", "bench/cpu", *asked, *chosen, "--watch")
                assert "Completed" in told
            finally:
                end(worker)
        kept = bucket.contents()
        assert sorted({key.split("/")[1] for key in kept}) == ["runs", "timings"]
        (runs,) = [body for key, body in kept.items() if key.startswith("r/runs/") and key.endswith(".parquet")]
        (tmp_path / "run.parquet").write_bytes(runs)
        (row,) = pq.ParquetFile(tmp_path / "run.parquet").read().to_pylist()
        assert (row["complete"], row["image"]) == (True, digest)
    finally:
        seaweed.kill()


def test_a_base_without_python_or_without_a_shell_is_told_in_one_line(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    name = "localhost/jitmatrix-empty:test"
    subprocess.run([engine.name, "build", "--tag", name, str(tmp_path)], capture_output=True, check=True)
    try:
        with pytest.raises(UsageError, match="has no shell, and so no python3"):
            build_image(Variant.of("cpu"), engine, name)
    finally:
        subprocess.run([engine.name, "rmi", name], capture_output=True, check=False)


def test_an_interrupted_build_names_what_removes_what_it_left(engine: Engine, base_image: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {base_image}\nRUN sleep 600\n")
    code = (
        "from pathlib import Path; from containers.engine import Engine; "
        f"Engine({engine.name!r}).build({{}}, [], Path('Dockerfile'), Path('.'), Path('log'))"
    )
    building = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert building.stderr is not None
    seen = next(line for line in building.stderr if "sleep 600" in line)
    # The step has begun when its line stands, and its container a moment later.
    time.sleep(3)
    os.killpg(building.pid, signal.SIGINT)
    told = building.communicate(timeout=120)[1]
    assert building.returncode != 0, seen
    if engine.name == "docker":
        return
    (line,) = [line for line in told.splitlines() if line.startswith("jitmatrix: interrupted; ")]
    remove = line.partition("this removes what it left: ")[2].split()
    assert remove[:3] == [engine.name, "rm", "--force"]
    subprocess.run(remove, check=True, capture_output=True)
    listed = subprocess.run(
        [*remove[:1], "ps", "--all", "--external", "--quiet"], capture_output=True, text=True, check=True
    )
    assert not set(remove[3:]) & set(listed.stdout.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_too_little_space_is_told_before_anything_is_built(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "podman":
        pytest.skip("docker keeps images where its daemon was told to")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "none", small], check=True)
    try:
        lines = ("[storage]", 'driver="vfs"', f'runroot="{small}/run"', f'graphroot="{small}/graph"')
        (tmp_path / "storage.conf").write_text("\n".join(lines))
        monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
        with pytest.raises(UsageError, match=r"0\.1 GB are free where podman keeps images, .*; make room"):
            build_image(Variant.of("cpu"), engine, base.NAME)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
