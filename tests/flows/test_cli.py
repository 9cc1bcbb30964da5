"""The command: what it lists, what it says of bad input, and what is left after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from kernels import devices
from kernels.case import Backend
from tests.flows.conftest import ROOT, Command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kernel", "dens"], "unknown kernel 'dens' (--kernel, in matrix seeds): choose from dense, "),
        (["--framework", "jax/jitt"], "did you mean jax/jit?"),
        (["--framework", "theano"], "unknown framework 'theano'"),
        (["--size", "XXL"], "unknown size 'XXL'"),
        (["--dtype", "float16"], "choose from float32, float64"),
        (["--backend", "cuda"], "choose from cpu, gpu, tpu"),
        (["--derivative", "3"], "unknown derivative '3' (--derivative): choose from 0, 1, 2"),
        (["--derivative", "one"], "--derivative"),
        (["--matrix", "nightlyy"], "unknown matrix 'nightlyy'"),
        (["--matrix", "missing.toml"], "missing.toml: cannot be read (No such file or directory)"),
        (["--kernel", "dense", "--framework", "python"], "no case is left"),
        (["--rounds", "0"], "rounds = 0: give a number of at least 1"),
        (["--rounds", "two"], "--rounds"),
        (["--budget", "nan"], "budget_s"),
        (["--results", "s3://bucket/prefix"], "no credentials are found"),
        (["--kernle", "dense"], "Did you mean --kernel?"),
        (["--kernel"], "requires an argument"),
        (["dense"], "nothing takes dense (jitmatrix bench --help has what there is)"),
        (["--quick", "--gate"], "give one of them"),
        (["--workers", "999"], "--workers 999"),
        (["--workers", "2", "--framework", "jax", "--backend", "gpu"], "--workers"),
    ],
)
@pytest.mark.usefixtures("shared_server")
def test_bad_input_is_one_line_and_status_2_and_writes_nothing(
    jitmatrix: Command, tmp_path: Path, arguments: list[str], says: str
) -> None:
    done = jitmatrix("bench", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("jitmatrix: ")
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kernels = ["dense"', "not a TOML file"),
        ('kernels = ["dense"]', "the key frameworks is missing"),
        ('kernels = "dense"\nframeworks = ["jax/jit"]', "kernels must be a list of strings"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\nrounds = 3', "unknown key 'rounds'"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\n[sampling]\nround = 3', "did you mean rounds?"),
        ('kernels = ["dense"]\nframeworks = ["jax"]', "unknown framework/mode 'jax'"),
        ('kernels = ["dense"]\nframeworks = ["jax/jit"]\n[[exclude]]\nsize = "S"', "needs a reason"),
    ],
)
def test_a_malformed_matrix_file_is_named_with_what_is_wrong(
    jitmatrix: Command, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "own.toml").write_text(text)
    done = jitmatrix("bench", "--matrix", "./own.toml")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "own" in done.stderr
    assert says in done.stderr


def test_a_results_root_that_is_a_file_is_refused(jitmatrix: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = jitmatrix("bench", "--results", "taken/results")
    assert done.returncode == 2
    assert "taken is a file" in done.stderr


def test_list_shows_kernels_frameworks_and_matrices(jitmatrix: Command) -> None:
    done = jitmatrix("list")
    assert done.returncode == 0
    shown_words = " ".join(done.stdout.split())
    for shown in (
        "n=1000, d_in=500,",
        "sin(x) + cos(x)",
        "y[i] = x[0] + ... + x[i]",
        "njit",
        "seeds",
        "70 cases, 50 skips",
    ):
        assert shown in shown_words


@pytest.mark.usefixtures("shared_server")
@pytest.mark.skipif(devices.present(Backend.GPU), reason="this machine has a GPU")
def test_a_gpu_image_measures_on_a_gpu_or_not_at_all(jitmatrix: Command, tmp_path: Path) -> None:
    options = ("--matrix", "smoke", "--kernel", "double", "--framework", "jax/jit", "--quick")
    done = jitmatrix("bench", *options, JITMATRIX_BACKEND="gpu")
    assert done.returncode == 1, done.stdout + done.stderr
    query = f"select distinct backend, status, samples is null from '{tmp_path}/results/timings/*/*.parquet'"
    assert duckdb.sql(query).fetchall() == [("gpu", "unavailable", True)]
    (run,) = duckdb.sql(f"select command from '{tmp_path}/results/runs/*/*.parquet'").fetchall()
    assert " --backend gpu " in run[0]


@pytest.mark.usefixtures("shared_server")
def test_a_root_that_cannot_be_written_is_refused_before_anything_is_measured(jitmatrix: Command) -> None:
    options = ("--matrix", "smoke", "--kernel", "double", "--framework", "numpy", "--results", "/proc/results")
    done = jitmatrix("bench", *options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "/proc/results: cannot be written" in done.stderr
    assert "name a folder of yours" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_keeps_what_was_measured_and_leaves_no_child(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    kernels = ("--kernel", "dense", "--kernel", "double", "--kernel", "sincos", "--kernel", "total")
    frameworks = ("--framework", "numpy", "--framework", "numba", "--framework", "jax", "--framework", "python")
    command = [sys.executable, "-m", "flows.cli", "bench", "--matrix", "smoke", *kernels, *frameworks]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JITMATRIX_MARK": str(tmp_path)}
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "round 1: 1/16" in line:
            break
    time.sleep(2)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == status
    assert "Traceback" not in err + out
    rows = duckdb.sql(f"from '{tmp_path}/results/timings/*/*.parquet'")
    found = dict(duckdb.sql("select status, count(distinct case_id) from rows group by 1").fetchall())
    assert sum(found.values()) == 24
    assert found.get("ok", 0) >= 1
    assert duckdb.sql(f"select complete from '{tmp_path}/results/runs/*/*.parquet'").fetchall() == [(False,)]
    assert _carrying(str(tmp_path)) == []
    assert found["skipped"] > 8, rows


def _carrying(mark: str) -> list[str]:
    """List processes whose environment carries a mark, once they had five seconds to go."""
    for _ in range(50):
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"JITMATRIX_MARK={mark}".encode() in path.read_bytes():
                    found.append(path.parent.name)
            except OSError:
                continue
        if not found:
            return []
        time.sleep(0.1)
    return found
