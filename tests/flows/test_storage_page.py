"""docs/storage.md: its commands run as they are written, and what it names is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.s3 import S3Root
from flows.settings import Settings
from flows.store import BATCH_CASES, BATCH_S
from flows.upload import PATIENCE_S
from tests.flows.conftest import ROOT
from tests.flows.seaweed import Bucket

pytestmark = pytest.mark.faults

PAGE = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")


def test_the_commands_run_one_after_the_other_on_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    tool = binaries / "jitmatrix"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flows.cli "$@"\n')
    tool.chmod(0o755)
    (commands,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [shutil.which("sh") or "/bin/sh", "-ec", commands.replace("my-bucket", bucket.name)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing waits to be sent" in done.stdout
    assert "no problem" in done.stdout
    assert len([key for key in bucket.contents() if key.startswith("results/runs/")]) == 2


def test_the_line_of_the_probe_is_what_it_says_here(bucket: Bucket) -> None:
    assert S3Root(bucket.name, "results").check().replace(bucket.name, "my-bucket") in PAGE


def test_every_setting_and_number_that_it_names_is_so() -> None:
    table = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `JITMATRIX_(\w+)`", table, re.MULTILINE)) == {
        name.upper() for name in Settings.model_fields
    }
    for words in (
        f"after {BATCH_CASES} cases",
        f"{BATCH_S:g} s after the last file",
        f"After {PATIENCE_S:g} s without",
    ):
        assert words in " ".join(PAGE.split())


def test_every_test_that_it_names_is_there() -> None:
    for name in re.findall(r"`(test_\w+\.py)`", PAGE):
        assert (Path(__file__).parent / name).is_file(), name
