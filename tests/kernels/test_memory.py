"""A case that takes more memory than it may is one row, `killed` for that reason, and harms nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import memory
from kernels.assignment import Assignment, Role
from kernels.errors import UnavailableError
from kernels.isolation import Isolation
from kernels.measurement import Status
from tests.kernels.conftest import TINY, case_of

LIMIT_MB = 256

try:
    PLACE, WHY_NOT = memory.place(), ""
    memory.Group(PLACE).leave()
except UnavailableError as error:
    PLACE, WHY_NOT = None, str(error)

grouped = pytest.mark.skipif(PLACE is None, reason=f"no memory group can be made here: {WHY_NOT}")


@pytest.fixture
def ungrouped(monkeypatch, tmp_path):
    """An isolation whose servers find no control group: they look into an empty directory."""
    (tmp_path / "sitecustomize.py").write_text(
        "import functools, pathlib, sys\n"
        "if 'kernels.forkserver' in sys.orig_argv:\n"
        "    from kernels import memory\n"
        f"    memory.place = functools.partial(memory.place, pathlib.Path({str(tmp_path)!r}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Isolation() as isolation:
        yield isolation


def hungry(isolation, kernel):
    sampling = replace(TINY, memory_mb=LIMIT_MB)
    return isolation.run(Assignment(case_of(kernel, "numpy/eager", "hungry"), Role.FIRST_CALL, sampling))


def groups():
    return sorted(PLACE.parent.glob(f"{memory.PREFIX}*"))


@grouped
@pytest.mark.parametrize("kernel", ["private", "child", "shared"])
def test_a_control_group_ends_a_case_that_takes_too_much(isolation, kernel):
    outcome = hungry(isolation, kernel)
    assert outcome.status is Status.KILLED
    assert "out of memory" in outcome.reason
    assert f"{LIMIT_MB} MiB" in outcome.reason
    assert hungry(isolation, "modest").status is Status.OK


@grouped
def test_what_a_case_leaves_in_shared_memory_is_not_held_against_the_next(monkeypatch):
    left = Path(f"/dev/shm/jitmatrix-test-{uuid.uuid4()}")
    monkeypatch.setenv("JITMATRIX_TEST_FILE", str(left))
    try:
        with Isolation() as isolation:
            assert hungry(isolation, "left_behind").status is Status.OK
            first = groups()
            assert hungry(isolation, "modest").status is Status.OK
            assert groups() != first
    finally:
        left.unlink(missing_ok=True)


@grouped
def test_the_row_says_what_limited_the_case(isolation):
    assert hungry(isolation, "modest").facts["memory_limit"] == f"{LIMIT_MB * 2**20} bytes by control group"


def test_without_a_control_group_a_resource_limit_holds(ungrouped):
    outcome = hungry(ungrouped, "private")
    assert outcome.status is Status.KILLED
    assert "out of memory" in outcome.reason
    assert f"{LIMIT_MB} MiB" in outcome.reason
    outcome = hungry(ungrouped, "modest")
    assert outcome.status is Status.OK
    assert outcome.facts["memory_limit"] == f"{LIMIT_MB * 2**20} bytes by resource limit"


def made_by(pid):
    return list(PLACE.parent.glob(f"{memory.PREFIX}{pid}-*"))


def server_of(isolation):
    """The process id of the isolation's one server, by the group that it made."""
    return next(iter(isolation._servers.values()))._process.pid


@grouped
def test_no_group_is_left_behind_by_an_isolation():
    with Isolation() as isolation:
        hungry(isolation, "modest")
        server = server_of(isolation)
        assert made_by(server)
    assert not made_by(server)


@grouped
def test_no_group_is_left_behind_by_a_killed_server():
    with Isolation() as isolation:
        hungry(isolation, "modest")
        server = server_of(isolation)
        os.kill(server, signal.SIGKILL)
    assert not made_by(server)


@grouped
def test_no_group_is_left_behind_by_a_killed_parent():
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.kernels.test_memory import *\n"
        "i = Isolation(); hungry(i, 'modest'); print(server_of(i), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60, check=False)
    server = int(done.stdout)
    deadline = time.monotonic() + 30
    while made_by(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not made_by(server)


def test_groups_whose_maker_is_gone_are_swept_and_others_stay(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead, living, foreign = (tmp_path / f"{memory.PREFIX}{name}" for name in (f"{gone.pid}-0", f"{os.getpid()}-0", "x"))
    for folder in (dead, living, foreign):
        folder.mkdir()
    assert memory.sweep(tmp_path) == [dead]
    assert living.exists()
    assert foreign.exists()


class Tree:
    """A process and a control group file system as plain files."""

    def __init__(self, root: Path, own: str, mountinfo: str) -> None:
        self.proc, self.root = root / "proc", root
        self.proc.mkdir()
        (self.proc / "cgroup").write_text(own)
        (self.proc / "mountinfo").write_text(mountinfo)

    def group(self, path: str, **files: str) -> Path:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").touch()
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(text)
        return folder

    def place(self) -> memory.Place:
        return memory.place(self.proc, self.root)


V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2 = "35 31 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def test_version_1_takes_a_group_below_the_own_one(tmp_path):
    tree = Tree(tmp_path, "4:memory:/a/b\n0::/\n", V1 + V2)
    own = tree.group("sys/fs/cgroup/memory/a/b")
    assert tree.place() == memory.Place(1, own, own)


def test_version_1_in_a_container_sees_its_own_group_as_the_mount(tmp_path):
    tree = Tree(tmp_path, "4:memory:/docker/x\n", V1.replace(" / /sys", " /docker/x /sys"))
    own = tree.group("sys/fs/cgroup/memory")
    assert tree.place() == memory.Place(1, own, own)


def test_version_2_takes_a_group_beside_the_own_one(tmp_path):
    tree = Tree(tmp_path, "0::/user/app/run.scope\n", V2)
    parent = tree.group("sys/fs/cgroup/user/app", cgroup_subtree_control="cpu memory pids")
    own = tree.group("sys/fs/cgroup/user/app/run.scope", memory_max="max", cpu_max="max 100000")
    assert tree.place() == memory.Place(2, parent, own)


@pytest.mark.parametrize("limit", [{"memory_max": "1073741824"}, {"cpu_max": "50000 100000"}])
def test_version_2_never_lets_a_case_escape_the_limits_of_its_own_group(tmp_path, limit):
    tree = Tree(tmp_path, "0::/app/run.scope\n", V2)
    tree.group("sys/fs/cgroup/app", cgroup_subtree_control="cpu memory")
    tree.group("sys/fs/cgroup/app/run.scope", **limit)
    with pytest.raises(UnavailableError, match="escape"):
        tree.place()


def test_a_group_that_is_not_handed_down_is_said_so(tmp_path):
    tree = Tree(tmp_path, "0::/\n", V2)
    tree.group("sys/fs/cgroup", cgroup_subtree_control="cpu")
    with pytest.raises(UnavailableError, match="not handed down"):
        tree.place()


def test_no_control_groups_at_all_are_said_so(tmp_path):
    with pytest.raises(UnavailableError, match="no control groups"):
        Tree(tmp_path, "", "").place()
