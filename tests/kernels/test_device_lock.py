"""One device, one benchmark: who measures holds a lock of the machine, and whoever else wants the device waits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.case import Backend, Case, Plan
from kernels.device_lock import Claim, HeldError, device, holder, patience_s
from kernels.errors import UsageError
from kernels.lock_file import folder
from kernels.measurement import Status
from kernels.run import Run
from kernels.timing import Sampling

ROOT = Path(__file__).resolve().parents[2]

HOLDS = """
import sys, time
from kernels.case import Backend
from kernels.device_lock import Claim
with Claim("run A (jitmatrix bench)", print).held(Backend.CPU):
    print("held", flush=True)
    time.sleep(600)
"""

OTHER_USER = """
import os
from kernels.case import Backend
from kernels.device_lock import Claim
os.setuid(65534)
with Claim("run B", print, wait_s=0).held(Backend.CPU):
    pass
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JITMATRIX_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


@contextlib.contextmanager
def another_process() -> Iterator[subprocess.Popen[str]]:
    """Have another process hold the processors."""
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def never(line: str) -> None:
    raise AssertionError(line)


def take(what: str, backend: Backend = Backend.CPU) -> None:
    """Take a device without waiting, and give it back."""
    with Claim(what, never, wait_s=0).held(backend):
        pass


def test_a_free_device_is_taken_at_once_and_free_again_afterwards() -> None:
    for _ in range(2):
        take("run A", Backend.CPU)


def test_a_device_that_another_process_holds_is_unavailable_and_its_holder_named() -> None:
    with another_process() as other, pytest.raises(HeldError) as error:
        take("run B")
    assert str(error.value).startswith(f"device busy (cpu): run A (jitmatrix bench), process {other.pid} of ")
    assert "\n" not in str(error.value)


def test_two_threads_of_one_process_wait_for_each_other() -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> None:
        nonlocal inside, most
        with Claim(f"run {number}", lambda _: None, wait_s=60).held(Backend.CPU):
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.05)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_who_waits_says_so_once_and_goes_on_when_the_holder_is_killed() -> None:
    lines: list[str] = []
    with another_process() as other:

        def say(line: str) -> None:
            lines.append(line)
            other.send_signal(signal.SIGKILL)

        with Claim("run B", say, wait_s=60).held(Backend.CPU):
            assert "run B" in holder("cpu")
    (line,) = lines
    assert line.startswith(f"cpu is held by run A (jitmatrix bench), process {other.pid} of ")
    assert line.endswith("; waiting, 60 s at most (JITMATRIX_DEVICE_WAIT_S)")


def test_accelerators_share_the_processors_and_keep_them_from_a_benchmark_of_the_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Claim("run T", never, wait_s=0).held(Backend.TPU), Claim("run G", never, wait_s=0).held(Backend.GPU):
        with pytest.raises(HeldError, match=r"device busy \(cpu\): run G, .* and run T, "):
            take("run C", Backend.CPU)
        with pytest.raises(HeldError, match=r"device busy \(gpu-.*\): run G, "):
            take("run H", Backend.GPU)
    with Claim("run C", never, wait_s=0).held(Backend.CPU), pytest.raises(HeldError, match=r"\(cpu\): run C, "):
        take("run G", Backend.GPU)
    # What was taken of it until then is free.
    take("run G", Backend.GPU)


def test_a_lock_whose_file_was_removed_under_who_opened_it_is_not_taken_for_held(own_folder: Path) -> None:
    lines: list[str] = []
    with another_process() as other:
        (own_folder / "cpu.lock").unlink()
        with Claim("run B", lines.append, wait_s=60).held(Backend.CPU):
            # The new file is the lock now, and whoever comes finds it.
            assert "run B" in holder("cpu")
        assert other.poll() is None
    assert lines == []


def test_every_user_of_the_machine_can_take_a_lock_whatever_the_umask_of_who_made_it(own_folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with Claim("run A", never).held(Backend.CPU):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(own_folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE((own_folder / "cpu.lock").stat().st_mode) == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_takes_the_lock_that_root_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        monkeypatch.setenv("JITMATRIX_LOCKS", f"{place}/locks")
        with Claim("run A", never).held(Backend.CPU):
            pass
        done = subprocess.run([sys.executable, "-c", OTHER_USER], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_the_folder_is_one_for_all_users_and_never_that_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(Path.home()))
    monkeypatch.delenv("JITMATRIX_LOCKS")
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)
    assert str(folder()) in {"/run/lock/jitmatrix", "/tmp/jitmatrix-locks"}


def test_a_folder_on_a_read_only_root_is_none_for_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITMATRIX_LOCKS")
    found = os.statvfs("/tmp")
    read_only = os.statvfs_result((*tuple(found)[:8], found.f_flag | os.ST_RDONLY, *tuple(found)[9:]))
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)
    assert str(folder()) == "/tmp/jitmatrix-locks"


def test_what_somebody_else_wrote_into_the_file_is_no_name(own_folder: Path) -> None:
    own_folder.mkdir()
    for text in ("", "{", '{"what": "x", "nonsense": 1}', "[1]", "\x00\x01"):
        with (own_folder / "cpu.lock").open("w") as file:
            file.write(text)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(HeldError, match="another run holds it"):
                take("run B", Backend.CPU)


def test_a_link_in_place_of_a_lock_is_not_followed(own_folder: Path, tmp_path: Path) -> None:
    own_folder.mkdir()
    (tmp_path / "precious").write_text("kept")
    (own_folder / "cpu.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="JITMATRIX_LOCKS: "), Claim("run B", never, wait_s=0).held(Backend.CPU):
        raise AssertionError
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JITMATRIX_LOCKS", str(tmp_path / "file" / "locks"))
    with pytest.raises(UsageError, match=r"^JITMATRIX_LOCKS: name a folder .* \(Not a directory\)$"):
        Claim("run A", never)


@pytest.mark.parametrize(("text", "seconds"), [("", 14400.0), ("0", 0.0), ("90", 90.0), ("1.5", 1.5)])
def test_the_patience_is_a_number_of_seconds(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_DEVICE_WAIT_S", text)
    assert patience_s() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan", "1h"])
def test_a_patience_that_is_no_number_of_seconds_is_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITMATRIX_DEVICE_WAIT_S", text)
    with pytest.raises(UsageError, match=f"^JITMATRIX_DEVICE_WAIT_S={text}: no number of seconds"):
        Claim("run A", never)


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine's driver knows its devices' ids")
@pytest.mark.parametrize(
    ("visible", "name"),
    [("3,1", "gpu-3"), ("GPU-8932f937-d72c", "gpu-8932f937-d72c"), ("MIG-a/7/0", "gpu-MIG-a-7-0"), ("", "gpu-0")],
)
def test_a_gpu_is_the_first_that_is_visible(visible: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device(Backend.GPU) == name


def test_cases_of_a_held_device_are_unavailable_rows_with_the_holders_name() -> None:
    cases = tuple(Case("double", "python", mode, "S", "float64") for mode in ("plain", "lru_cache"))
    run, rows = Run(Plan(cases, ()), Sampling(rounds=1)), []
    with another_process():
        run.measure(rows.append, claim=Claim("run B", never, wait_s=0))
    run.leave(rows.append, "never said")
    assert [row.case for row in rows] == list(cases)
    assert {row.status for row in rows} == {Status.UNAVAILABLE}
    assert all("run A (jitmatrix bench)" in row.reason for row in rows)


def test_the_command_without_an_orchestrator_says_who_holds_the_device_and_measures_nothing() -> None:
    command = [sys.executable, "-m", "kernels", "--kernel", "double", "--framework", "python", "--size", "S"]
    with another_process() as other:
        environment = {**os.environ, "JITMATRIX_DEVICE_WAIT_S": "0"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"device busy (cpu): run A (jitmatrix bench), process {other.pid}" in done.stderr
    assert '"status": "ok"' not in done.stdout
    assert '"status": "unavailable"' in done.stdout
