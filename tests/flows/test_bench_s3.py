"""A run whose results go to S3: they are durable here first, there at the end, and wait where it is away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.journal import unfinished
from flows.spool import spool
from flows.storage import root
from flows.upload import upload
from tests.flows.conftest import Command
from tests.flows.seaweed import Bucket
from tests.flows.test_resume import ROOT, start

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("shared_server")]

DOUBLE = ("--kernel", "double", "--framework", "numpy", "--dtype", "float64")


def listed(bucket: Bucket) -> set[str]:
    """The files of timings that markers in the bucket name."""
    return {
        file["key"]
        for key, content in bucket.contents().items()
        if key.rpartition("/")[2].startswith("_")
        for file in json.loads(content)["files"]
        if file["key"].startswith("timings/")
    }


def timings(bucket: Bucket) -> set[str]:
    """The files of timings in the bucket."""
    return {key.removeprefix("p/") for key in bucket.contents() if key.startswith("p/timings/")}


def test_a_run_is_in_the_bucket_at_its_end_and_nothing_waits(jitmatrix: Command, bucket: Bucket) -> None:
    address = f"s3://{bucket.name}/p"
    done = jitmatrix("bench", *DOUBLE, "--quick", "--budget", "0.1", "--results", address)
    assert done.returncode == 0, done.stderr
    assert len(timings(bucket)) == 1
    assert timings(bucket) == listed(bucket)
    assert spool(root(address)).pending() == []
    assert f"timings: {address}/timings/date=" in done.stdout
    assert "conditional puts" in done.stderr
    asked = jitmatrix("query", "runs", "--results", address, "--format", "csv")
    assert asked.returncode == 0, asked.stderr
    assert len(asked.stdout.splitlines()) == 2


def test_a_run_without_its_storage_goes_on_and_its_results_are_sent_later(
    jitmatrix: Command, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, endpoint = f"s3://{bucket.name}/p", os.environ["AWS_ENDPOINT_URL"]
    # Nobody listens there.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    command = [sys.executable, "-m", "tests.flows.resumed", address, "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "failed to upload" in done.stderr
    assert bucket.contents() == {}
    assert len(spool(root(address)).pending()) == 3

    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    sent = jitmatrix("upload")
    assert sent.returncode == 0, sent.stderr
    assert "3 sent" in sent.stdout
    assert timings(bucket) == listed(bucket)
    assert spool(root(address)).pending() == []
    again = jitmatrix("upload")
    assert (again.returncode, again.stdout) == (0, "nothing waits to be sent\n")


@pytest.mark.parametrize("step", [6, 7, 8, 9, 10])
def test_a_run_killed_on_its_way_to_the_bucket_is_there_once(step: int, bucket: Bucket) -> None:
    address = f"s3://{bucket.name}/p"
    folder = spool(root(address)).folder
    assert start(address, step) == -signal.SIGKILL
    for run_id in unfinished(folder):
        start(address, 0, run_id)
    upload(spool(root(address)), root(address))
    assert unfinished(folder) == []
    assert spool(root(address)).pending() == []
    assert len(timings(bucket)) == 1
    assert timings(bucket) == listed(bucket)


def test_the_partial_rows_of_an_interrupted_run_leave_the_bucket_when_it_goes_on(
    jitmatrix: Command, bucket: Bucket, tmp_path: Path
) -> None:
    address = f"s3://{bucket.name}/p"
    command = [sys.executable, "-m", "flows.cli", "bench", *DOUBLE, "--rounds", "40", "--results", address]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    folder = spool(root(address)).folder
    while not any(path.read_bytes().count(b'"turn"') > 1 for path in folder.glob(".journal/*")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    found = re.search(r"jitmatrix bench --resume (\S+)", err)
    assert found, err
    assert {key.endswith("-partial.parquet") for key in timings(bucket)} == {True}
    assert listed(bucket) == set()

    done = jitmatrix("bench", "--resume", found[1], "--results", address)
    assert done.returncode == 0, done.stderr
    assert timings(bucket) == listed(bucket)
    assert not any(key.endswith("-partial.parquet") for key in bucket.contents())


def test_a_bucket_that_is_not_there_is_one_line_before_anything_is_measured(jitmatrix: Command, bucket: Bucket) -> None:
    done = jitmatrix("bench", *DOUBLE, "--results", "s3://no-such-bucket-here/p")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no-such-bucket-here" in done.stderr
    assert "Traceback" not in done.stderr
