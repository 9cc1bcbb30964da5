"""Uploading: what the spool holds is stored once and whole, whatever the storage does meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from flows import s3
from flows.durable import publish
from flows.spool import Spool, spool, spools
from flows.storage import Root, root
from flows.upload import Progress, Uploaded, upload
from tests.flows.conftest import ROOT
from tests.flows.proxy import Fault, Proxy
from tests.flows.runs import DAY, below, write_run
from tests.flows.seaweed import ADMIN, Bucket

pytestmark = pytest.mark.faults


@pytest.fixture
def target(bucket: Bucket) -> Root:
    return root(f"s3://{bucket.name}/results")


@pytest.fixture
def waiting(target: Root) -> Spool:
    return spool(target)


def test_everything_is_stored_and_leaves_the_spool(bucket: Bucket, target: Root, waiting: Spool) -> None:
    files = write_run(waiting.folder, "a") | write_run(waiting.folder, "b")
    publish(waiting.folder / "hlo/1234.txt.zst", b"a program")
    publish(waiting.folder / f"output/{DAY}/a/case.txt", b"printed")
    files |= {"hlo/1234.txt.zst": b"a program", f"output/{DAY}/a/case.txt": b"printed"}
    result = upload(waiting, target)
    assert bucket.contents() == below("results", files)
    assert sorted(result.sent) == sorted(files)
    assert result.complete
    assert waiting.pending() == []
    assert [path.name for path in waiting.folder.iterdir() if not path.name.startswith(".")] == []
    assert str(result) == f"s3://{bucket.name}/results: 10 sent, 0 already there"


def test_a_spool_keeps_its_target_for_the_next_process(waiting: Spool, target: Root) -> None:
    assert spools() == [waiting]
    assert spools()[0].target == target.address


def test_a_second_upload_has_nothing_to_do(bucket: Bucket, target: Root, waiting: Spool) -> None:
    write_run(waiting.folder, "a")
    upload(waiting, target)
    before = bucket.contents()
    assert upload(waiting, target) == Uploaded(target.address)
    assert bucket.contents() == before


def test_the_marker_is_put_after_all_that_it_names(bucket: Bucket, proxy: Proxy) -> None:
    target = root(f"s3://{bucket.name}/results")
    files = write_run(spool(target).folder, "a", timings=20)
    upload(spool(target), target)
    puts = [path for method, path in proxy.requests if method == "PUT" and "/.probe/" not in path]
    assert len(puts) == len(files)
    assert "_a.json" in puts[-1]


def test_files_of_a_run_without_a_marker_are_stored_and_stay(bucket: Bucket, target: Root, waiting: Spool) -> None:
    files = write_run(waiting.folder, "a")
    marker = f"runs/{DAY}/_a.json"
    content = files.pop(marker)
    waiting.path(marker).unlink()
    assert upload(waiting, target).complete
    assert bucket.contents() == below("results", files)
    assert waiting.pending() == sorted(files)
    publish(waiting.path(marker), content)
    result = upload(waiting, target)
    assert sorted(result.there) == sorted(files)
    assert result.sent == [marker]
    assert waiting.pending() == []


def test_other_content_under_a_key_is_named_and_kept_and_holds_up_no_other(
    bucket: Bucket, target: Root, waiting: Spool
) -> None:
    taken = write_run(waiting.folder, "a")
    free = write_run(waiting.folder, "b")
    key = f"timings/{DAY}/a-0.parquet"
    bucket.put(f"results/{key}", b"another's")
    result = upload(waiting, target)
    assert result.conflicts == [key]
    assert result.waiting == [f"runs/{DAY}/_a.json"]
    assert not result.complete
    assert key in str(result)
    assert bucket.contents()[f"results/{key}"] == b"another's"
    assert waiting.path(key).read_bytes() == taken[key]
    assert below("results", free).items() <= bucket.contents().items()
    assert sorted(waiting.pending()) == sorted(taken)


def test_a_program_packed_otherwise_is_the_same_program(bucket: Bucket, target: Root, waiting: Spool) -> None:
    bucket.put("results/hlo/1234.txt.zst", b"packed by another library")
    publish(waiting.folder / "hlo/1234.txt.zst", b"packed by this one")
    result = upload(waiting, target)
    assert result.there == ["hlo/1234.txt.zst"]
    assert waiting.pending() == []


def test_what_was_synchronised_without_a_hash_is_compared_by_content(
    bucket: Bucket, target: Root, waiting: Spool
) -> None:
    files = write_run(waiting.folder, "a")
    for key, content in below("results", files).items():
        bucket.put(key, content)
    result = upload(waiting, target)
    assert sorted(result.there) == sorted(files)
    assert result.complete


def test_a_marker_that_names_what_is_nowhere_waits(bucket: Bucket, target: Root, waiting: Spool) -> None:
    write_run(waiting.folder, "a")
    waiting.path(f"timings/{DAY}/a-1.parquet").unlink()
    result = upload(waiting, target)
    assert result.waiting == [f"runs/{DAY}/_a.json"]
    assert "a-1.parquet, which its marker names, is neither here nor there" in str(result)
    assert f"results/runs/{DAY}/_a.json" not in bucket.contents()


def test_a_file_that_changed_in_the_spool_has_no_marker_put(bucket: Bucket, target: Root, waiting: Spool) -> None:
    write_run(waiting.folder, "a")
    waiting.path(f"timings/{DAY}/a-1.parquet").write_bytes(b"a disk that forgets")
    result = upload(waiting, target)
    assert result.waiting == [f"runs/{DAY}/_a.json"]
    assert "a-1.parquet, which its marker names, is not what it says" in str(result)


def test_a_file_in_a_markers_place_is_named_and_kept(bucket: Bucket, target: Root, waiting: Spool) -> None:
    publish(waiting.folder / f"runs/{DAY}/_a.json", b"{")
    result = upload(waiting, target)
    assert result.conflicts == [f"runs/{DAY}/_a.json"]
    assert "no marker of a run" in str(result)
    assert bucket.contents() == {}


def test_progress_ends_at_the_whole(bucket: Bucket, target: Root, waiting: Spool) -> None:
    files = write_run(waiting.folder, "a", timings=5)
    seen: list[Progress] = []
    upload(waiting, target, progress=seen.append)
    assert [each.files for each in seen] == list(range(1, len(files) + 1))
    nbytes = sum(map(len, files.values()))
    assert seen[-1] == Progress(len(files), len(files), nbytes, nbytes)


def test_a_local_root_has_nothing_to_send(tmp_path: Path) -> None:
    target = root(str(tmp_path))
    files = write_run(spool(target).folder, "a")
    assert upload(spool(target), target) == Uploaded(str(tmp_path))
    assert {key: (tmp_path / key).read_bytes() for key in files} == files


def test_temporary_files_of_killed_writers_are_swept_after_a_day(bucket: Bucket, target: Root, waiting: Spool) -> None:
    write_run(waiting.folder, "a")
    old, young = (waiting.folder / f"timings/{DAY}/.a-9.parquet.{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    upload(waiting, target)
    assert not old.exists()
    assert young.exists()
    assert spools() == [waiting]


def test_1200_files_are_stored_and_listed(bucket: Bucket, target: Root, waiting: Spool) -> None:
    files = write_run(waiting.folder, "a", timings=1200, nbytes=20)
    result = upload(waiting, target)
    assert len(result.sent) == len(files)
    assert {stored.key: stored.nbytes for stored in target.files()} == {k: len(v) for k, v in files.items()}
    assert len(list(target.files(f"timings/{DAY}/"))) == 1200


def test_a_large_file_goes_in_parts_and_leaves_no_upload_begun(
    bucket: Bucket, target: Root, waiting: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_NBYTES", 5 << 20)
    files = write_run(waiting.folder, "a", timings=1, nbytes=12 << 20)
    key = f"results/timings/{DAY}/a-0.parquet"
    begun = bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)["UploadId"]
    bucket.client.upload_part(Bucket=bucket.name, Key=key, UploadId=begun, PartNumber=1, Body=b"of a killed process")
    result = upload(waiting, target)
    assert result.complete
    assert bucket.contents() == below("results", files)
    assert bucket.begun_uploads() == []


# Faults of the network and the server. Each strikes every object at least once.


def _storm(status: int, code: str, times: int = 2, **headers: str) -> Callable[[str, str], Fault | None]:
    seen: Counter[tuple[str, str]] = Counter()

    def faults(method: str, path: str) -> Fault | None:
        seen[method, path] += 1
        return Fault(status, code, headers) if seen[method, path] <= times else None

    return faults


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests"), (409, "ConditionalRequestConflict")],
)
def test_a_storm_of_errors_is_outlasted(bucket: Bucket, proxy: Proxy, status: int, code: str) -> None:
    target = root(f"s3://{bucket.name}/results")
    files = write_run(spool(target).folder, "a")
    target.check()
    proxy.faults = _storm(status, code)
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)
    assert spool(target).pending() == []


def test_a_server_that_asks_for_a_pause_gets_it(bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    target = root(f"s3://{bucket.name}/results")
    target.check()
    pauses: list[float] = []
    monkeypatch.setattr(target.client.closing, "wait", pauses.append)  # type: ignore[attr-defined]
    proxy.faults = _storm(503, "SlowDown", 1, **{"Retry-After": "7"})
    target.put("key", b"content")
    assert pauses == [7.0]


def test_replies_lost_after_the_object_was_stored_double_nothing(bucket: Bucket, proxy: Proxy) -> None:
    target = root(f"s3://{bucket.name}/results")
    files = write_run(spool(target).folder, "a")
    seen: set[tuple[str, str]] = set()

    def faults(method: str, path: str) -> Fault | None:
        first = (method, path) not in seen
        seen.add((method, path))
        return Fault(drop=True) if first else None

    proxy.faults = faults
    result = upload(spool(target), target)
    assert result.complete
    assert sorted(result.there) == sorted(files)
    assert bucket.contents() == below("results", files)


def test_a_lost_reply_to_the_completion_of_parts_doubles_nothing(
    bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_NBYTES", 5 << 20)
    target = root(f"s3://{bucket.name}/results")
    target.check()
    files = write_run(spool(target).folder, "a", timings=1, nbytes=12 << 20)
    seen: set[str] = set()

    def faults(method: str, path: str) -> Fault | None:
        kind = method + path.partition("?")[2].partition("=")[0]
        first = kind not in seen
        seen.add(kind)
        return Fault(drop=True) if first else None

    proxy.faults = faults
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)
    # An upload whose begin was never answered has an id that nobody knows.
    assert len(bucket.begun_uploads()) <= 1


def test_slow_and_stalled_connections_are_given_up_and_tried_again(
    bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITMATRIX_S3_TIMEOUT_S", "0.7")
    target = root(f"s3://{bucket.name}/results")
    target.check()
    files = write_run(spool(target).folder, "a")
    seen: Counter[tuple[str, str]] = Counter()

    def faults(method: str, path: str) -> Fault | None:
        seen[method, path] += 1
        return {1: Fault(stall_s=1.5), 2: Fault(trickle_s=0.001)}.get(seen[method, path])

    proxy.faults = faults
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)


def test_storage_that_stays_away_costs_the_patience_and_no_file(
    bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = root(f"s3://{bucket.name}/results")
    target.check()
    files = write_run(spool(target).folder, "a", timings=30)
    proxy.faults = lambda _method, _path: Fault(503, "ServiceUnavailable")
    result = upload(spool(target), target, patience_s=1)
    assert sorted(result.waiting) == sorted(files)
    assert len(result.errors) == 1
    assert spool(target).pending() == sorted(files, key=lambda key: ("/_" in key, key))
    proxy.faults = lambda _method, _path: None
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)


def test_renewed_credentials_are_read_when_the_old_ones_expire(
    bucket: Bucket, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "aws-credentials"
    text = "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n"
    file.write_text(text.format(*ADMIN) + "aws_session_token = old\n")
    target = root(f"s3://{bucket.name}/results")
    files = write_run(spool(target).folder, "a")

    def expired(method: str, path: str) -> Fault | None:
        return Fault(400, "ExpiredToken")

    proxy.faults = expired
    result = upload(spool(target), target)
    assert "the credentials have expired (ExpiredToken); renew them" in str(result)
    assert sorted(result.waiting) == sorted(files)

    def renewed_meanwhile(method: str, path: str) -> Fault | None:
        file.write_text(text.format(*ADMIN))
        proxy.faults = lambda _method, _path: None
        return Fault(400, "ExpiredToken")

    proxy.faults = renewed_meanwhile
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)


def test_a_clock_that_is_off_is_named(bucket: Bucket, proxy: Proxy) -> None:
    target = root(f"s3://{bucket.name}/results")
    files = write_run(spool(target).folder, "a")
    proxy.faults = lambda _method, _path: Fault(403, "RequestTimeTooSkewed", {"Date": "Tue, 01 Dec 2020 10:00:00 GMT"})
    result = upload(spool(target), target)
    assert "min ahead of the server's" in str(result)
    assert "set the clock" in str(result)
    proxy.faults = lambda _method, _path: None
    assert upload(spool(target), target).complete
    assert bucket.contents() == below("results", files)


def test_no_secret_is_in_what_is_said(bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint.replace("//", "//user:hidden@"))
    target = root(f"s3://{bucket.name}/results")
    write_run(spool(target).folder, "a")
    proxy.faults = lambda _method, _path: Fault(500, "InternalError")
    told = str(upload(spool(target), target, patience_s=0.5))
    told += repr(target) + str(vars(target)) + json.dumps([str(each) for each in spools()])
    assert ADMIN[1] not in told
    assert "hidden" not in told


def test_a_run_whose_results_stay_here_does_not_wait_for_the_import_of_boto3() -> None:
    program = "import sys, flows.bench, flows.sweep; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=240, check=False).returncode == 0
