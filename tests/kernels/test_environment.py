"""What an image says of itself: it has no git and cannot know its digest, but what its build was told."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from kernels import machine
from kernels.machine import Environment


@pytest.mark.parametrize(
    ("told", "commit", "dirty"),
    [("0123abcd", "0123abcd", False), ("0123abcd-dirty", "0123abcd", True), ("", None, False)],
)
def test_an_image_has_the_commit_that_it_was_built_from(
    told: str, commit: str | None, dirty: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JITMATRIX_COMMIT", told)
    here = Environment.here()
    assert (here.commit, here.dirty) == (commit, dirty)


def test_an_image_names_itself_and_every_package_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITMATRIX_IMAGE", raising=False)
    assert (Environment.here().image, Environment.here().packages) == (None, {})
    monkeypatch.setenv("JITMATRIX_IMAGE", "jitmatrix-cpu:0.1.0-0123456789ab")
    here = Environment.here()
    assert here.image == "jitmatrix-cpu:0.1.0-0123456789ab"
    assert here.packages["prefect"] == version("prefect")
    # A wheel that writes its name with an underscore or capitals is found by the name that an index has.
    assert here.packages["pydantic-core"] == version("pydantic_core")
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in here.packages)


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory.max": "1000", "memory.current": "700", "memory.stat": "inactive_file 200\n"}, 500),
        ({"memory.max": "1000", "memory.current": "2000", "memory.stat": "inactive_file 0\n"}, 0),
        (
            {
                "memory/memory.limit_in_bytes": "1000",
                "memory/memory.usage_in_bytes": "300",
                "memory/memory.stat": "inactive_file 9\ntotal_inactive_file 100\n",
            },
            800,
        ),
    ],
)
def test_a_case_may_take_what_the_containers_limit_leaves(
    files: dict[str, str], left: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    read = machine._read
    monkeypatch.setattr(machine, "_read", lambda path: read(path.replace("/sys/fs/cgroup", str(tmp_path))))
    assert machine.memory_available() == left
