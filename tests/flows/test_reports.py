"""Reports beside results: each stays under a key of its own, and the newest is found."""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows import reports
from flows.layout import is_report, report_key
from flows.results import uuid7
from flows.s3 import S3Root
from flows.storage import LocalRoot
from flows.verify import verify
from kernels.errors import UsageError
from tests.flows.seaweed import Bucket, SeaweedServer
from tests.flows.stored import write_run


def test_the_newest_of_those_that_are_there_is_found_and_all_stay(tmp_path: Path) -> None:
    root = LocalRoot(tmp_path)
    assert reports.newest(root) is None
    earlier = report_key(datetime.now(UTC).date() - timedelta(days=1), str(uuid7()))
    root.put(earlier, b"yesterday's")
    assert reports.newest(root) == f"{tmp_path}/{earlier}"
    stored = [reports.store(root, text) for text in ("<p>one", "<p>two")]
    (tmp_path / "reports" / "zzz.html").write_text("somebody's own")
    assert reports.newest(root) == stored[-1]
    assert [Path(each).read_text() for each in stored] == ["<p>one", "<p>two"]


def test_they_are_in_no_way_of_results(tmp_path: Path) -> None:
    write_run(tmp_path)
    reports.store(LocalRoot(tmp_path), "<p>")
    assert verify(LocalRoot(tmp_path)).problems == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file")
    with pytest.raises(UsageError, match=r"the report cannot be written .*--to") as caught:
        reports.store(LocalRoot(tmp_path), "<p>")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["reports/date=2026-11-03/x.html", "runs/date=2026-11-03/{id}.html", "reports/{id}.html"]
)
def test_what_else_stands_there_is_none(key: str) -> None:
    assert not is_report(key.format(id=uuid7()))
    assert is_report(report_key(datetime.now(UTC).date(), str(uuid7())))


def test_in_a_bucket_a_browser_opens_it_as_a_page(bucket: Bucket, seaweed: SeaweedServer) -> None:
    root = S3Root(bucket.name, "results")
    address = reports.store(root, "<p>three\u00d7")
    assert reports.newest(root) == address
    key = address.removeprefix(f"s3://{bucket.name}/")
    signed = seaweed.client().generate_presigned_url("get_object", Params={"Bucket": bucket.name, "Key": key})
    with urllib.request.urlopen(signed, timeout=30) as answer:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.read().decode() == "<p>three\u00d7"
