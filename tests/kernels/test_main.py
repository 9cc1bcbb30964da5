"""``python -m kernels`` measures without an orchestrator and prints one JSON line for each cell."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import pytest

from kernels.frameworks import frameworks

ROOT = Path(__file__).resolve().parents[2]
FAST = ("--rounds", "1", "--budget", "0.02")

jax_only = pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")


def kernels(*arguments, python=sys.executable, cwd=ROOT, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [python, "-m", "kernels", *arguments],
        capture_output=True, text=True, timeout=240, check=False, cwd=cwd, env=environment,
    )  # fmt: skip


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def statuses(rows):
    return {row["case"]["id"]: row["status"] for row in rows}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An interpreter that has NumPy and nothing else, beside a copy of the package."""
    home = tmp_path_factory.mktemp("bare")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    python = home / "bin" / "python"
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip())
    installed = Path(np.__file__).parents[1]
    for part in ("numpy", "numpy.libs"):
        if (installed / part).is_dir():
            (site / part).symlink_to(installed / part)
    (home / "kernels").symlink_to(ROOT / "kernels")
    return lambda *arguments: kernels(*arguments, python=str(python), cwd=home)


def test_numpy_alone_is_enough_and_what_is_missing_names_the_line_that_installs_it(bare):
    done = bare("--kernel", "sincos", "--size", "S", *FAST)

    rows = rows_of(done.stdout)
    assert done.returncode == 0, done.stderr
    by_framework = {(row["case"]["framework"], row["status"]) for row in rows}
    assert by_framework >= {("numpy", "ok"), ("jax", "unavailable"), ("numba", "unavailable")}
    reasons = {row["reason"] for row in rows if row["status"] == "unavailable"}
    assert {"jax is not installed; pip install jax", "numba is not installed; pip install numba"} <= reasons


def test_a_missing_framework_that_was_asked_for_by_name_fails_the_run(bare):
    done = bare("--kernel", "sincos", "--size", "S", "--framework", "numpy", "--framework", "numba/njit", *FAST)

    assert done.returncode == 1
    assert sorted(statuses(rows_of(done.stdout)).values()) == ["ok", "ok", "unavailable", "unavailable"]
    assert "planned 4 = ok 2 + failed 2 + skipped 0 (unavailable 2)" in done.stderr


@pytest.fixture(scope="module")
def small():
    return kernels("--kernel", "double", "--framework", "numpy", "--framework", "python", *FAST, "--seed", "7")


def test_standard_output_is_a_json_line_for_each_cell_and_nothing_else(small):
    rows = rows_of(small.stdout)

    assert small.returncode == 0, small.stderr
    assert statuses(rows) == {
        "double-numpy-eager-S-float32-cpu": "ok",
        "double-numpy-eager-S-float64-cpu": "ok",
        "double-python-plain-S-float32-cpu": "skipped",
        "double-python-plain-S-float64-cpu": "ok",
        "double-python-lru_cache-S-float32-cpu": "skipped",
        "double-python-lru_cache-S-float64-cpu": "ok",
    }
    ok = next(row for row in rows if row["status"] == "ok")
    assert ok["timings"]["steady"]["samples"][0]
    assert "startup_import_ns" in ok["facts"]
    assert "roofline_share" in ok["facts"]


def test_progress_is_one_short_line_a_case_and_a_closing_equation(small):
    # A machine on which something is off gets a line more, before all others.
    lines = [line for line in small.stderr.splitlines() if not line.startswith("jitmatrix: timings may mislead")]

    assert lines[0] == "jitmatrix: 2 skipped: python computes in float64 only"
    assert lines[-1] == "jitmatrix: planned 6 = ok 4 + failed 0 + skipped 2"
    finished = [
        line for line in lines if re.match(r"jitmatrix: \d/6  double-\S+  ok  [\d.e+]+ (ns|µs|ms)(  \S+)?$", line)
    ]
    assert len(finished) == 4
    assert len(lines) == 6


def test_a_file_takes_the_lines_instead_of_standard_output(tmp_path):
    file = tmp_path / "rows.jsonl"

    done = kernels("--kernel", "double", "--framework", "python/plain", *FAST, "--output", str(file))

    assert done.returncode == 0
    assert done.stdout == ""
    assert len(rows_of(file.read_text())) == 2


def test_a_matrix_file_is_narrowed_by_the_filters_and_its_sampling_gives_way_to_options(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        'kernels = ["double", "total"]\nframeworks = ["numpy/eager"]\ndtypes = ["float64"]\n'
        'sizes = ["S", "L"]\n[sampling]\nrounds = 3\nbudget_s = 0.03\n'
        '[[exclude]]\nreason = "too long here"\nsize = "L"\n'
    )

    done = kernels("--matrix", str(file), "--kernel", "total", "--rounds", "2")

    rows = rows_of(done.stdout)
    assert done.returncode == 0, done.stderr
    assert {row["case"]["id"]: row["reason"] for row in rows} == {
        "total-numpy-eager-S-float64-cpu": None,
        "total-numpy-eager-L-float64-cpu": "too long here",
    }
    assert [row["rounds"] for row in rows if row["status"] == "ok"] == [2]


def test_quick_is_two_rounds_and_cold_rotates_the_inputs():
    done = kernels("--kernel", "sincos", "--framework", "numpy", "--size", "S", "--dtype", "float64",
                   "--quick", "--cold", "--budget", "0.02")  # fmt: skip

    (row,) = rows_of(done.stdout)
    assert row["rounds"] == 2
    assert row["facts"]["cold_nbytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "dence"], "did you mean dense?"),
        (["--framework", "fortran"], "unknown framework 'fortran'"),
        (["--size", "XXL"], "unknown size 'XXL'"),
        (["--dtype", "float31"], "unknown dtype 'float31'"),
        (["--backend", "GPU"], "choose from cpu, gpu, tpu"),
        (["--backend", "tpu", "--framework", "numpy"], "numpy runs on cpu only"),
        (["--framework", "python", "--dtype", "float32"], "no case is left"),
        (["--matrix", "no-such.toml"], "no-such.toml: cannot be read"),
        (["--matrix", "Makefile"], "not a TOML file"),
        (["--rounds", "0"], "rounds = 0: give a number of at least 1"),
        (["--rounds", "two"], "invalid int value: 'two'"),
        (["--budget", "-1"], "budget_s = -1.0"),
        (["--budget", "nan"], "budget_s = nan"),
        (["--timeout", "0"], "timeout_s = 0.0"),
        (["--quick", "--rounds", "3"], "not allowed with argument"),
        (["--output", "no/such/folder/rows.jsonl"], "cannot be written"),
        (["--kernels", "dense"], "unrecognized arguments: --kernels dense"),
        (["dense"], "unrecognized arguments: dense"),
    ],
)
def test_what_was_typed_wrong_is_one_line_with_status_2_and_nothing_is_written(arguments, words, tmp_path):
    output = tmp_path / "rows.jsonl"
    given = arguments if "--output" in arguments else [*arguments, "--output", str(output)]

    done = kernels(*given)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert not output.exists()


@jax_only
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_backend_that_was_asked_for_and_is_not_there_fails_the_run():
    done = kernels("--kernel", "double", "--framework", "jax/jit", "--dtype", "float32", "--backend", "gpu", *FAST)

    (row,) = rows_of(done.stdout)
    assert done.returncode == 1
    assert row["status"] == "unavailable"
    assert row["reason"].startswith("jax has no usable gpu device here")
    assert "device" in row["planned"]


def test_a_case_past_its_deadline_costs_one_row_and_status_1():
    # Ten seconds of sampling do not end within one, on any machine.
    done = kernels("--kernel", "total", "--framework", "python/plain", "--dtype", "float64", "--size", "S",
                   "--rounds", "1", "--budget", "10", "--timeout", "1")  # fmt: skip

    (row,) = rows_of(done.stdout)
    assert done.returncode == 1
    assert row["status"] == "timeout"
    assert "timeout" in done.stderr
    assert done.stderr.splitlines()[-1] == "jitmatrix: planned 1 = ok 0 + failed 1 + skipped 0"


def children_of(pid):
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in found.splitlines()]
    near = [child for child, parent in parents if parent == pid]
    return near + [grandchild for child in near for grandchild in children_of(child)]


def test_ctrl_c_keeps_what_was_measured_ends_the_children_and_exits_130():
    command = [sys.executable, "-m", "kernels", "--kernel", "double", "--framework", "python", "--dtype", "float64",
               "--rounds", "400", "--budget", "4"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    # The fork server has a fork of its own while a case is under way.
    deadline = time.monotonic() + 60
    rounds_under_way = 0
    children = []
    while rounds_under_way < 3 and time.monotonic() < deadline:
        now = children_of(process.pid)
        rounds_under_way += len(now) > 1 and now != children
        children = now or children
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    rows = rows_of(out)
    assert process.returncode == 130, err
    assert len(rows) == 2
    assert any(row["status"] == "ok" and 0 < row["rounds"] < 400 for row in rows)
    assert "interrupted: planned 2 = ok" in err
    assert "Traceback" not in err
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_reader_that_goes_away_ends_the_run_without_a_traceback():
    command = [sys.executable, "-m", "kernels", "--kernel", "double", "--framework", "python", *FAST]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    process.stdout.close()
    err = process.stderr.read()

    assert process.wait(timeout=60) == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_help_says_what_each_exit_status_means():
    done = kernels("--help")

    assert done.returncode == 0
    for words in ("exit status", "130", "asked for by name", "--framework NAME[/MODE]", "--cold"):
        assert words in done.stdout
