"""What a run leaves beside its rows: programs by content, and what kernels printed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from flows.byproducts import keep
from flows.order import Order
from flows.results import Run
from kernels.assignment import Role
from kernels.case import Case
from kernels.measurement import Outcome
from kernels.selection import Filters

CASE = Case("double", "jax", "jit", "S", "float32")
TEXT = "HloModule jit_double"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(Order.of("smoke", Filters(), {}, str(tmp_path)), "jitmatrix bench")


def test_a_program_is_kept_once_under_its_hash(tmp_path: Path, run: Run) -> None:
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    outcome = Outcome(Role.STEADY, text=TEXT, facts={"program_hash": digest})
    keep(tmp_path, run, CASE, [outcome, outcome])
    (file,) = (tmp_path / "hlo").iterdir()
    assert file.name == f"{digest}.txt.zst"
    with pa.CompressedInputStream(str(file), "zstd") as stream:
        assert stream.read() == TEXT.encode()


def test_what_a_kernel_printed_is_a_file_of_its_case(tmp_path: Path, run: Run) -> None:
    silent = Outcome(Role.FIRST_CALL)
    keep(tmp_path, run, CASE, [Outcome(Role.STEADY, output="a line"), silent])
    (file,) = tmp_path.glob("output/date=*/*/*")
    assert file.name == f"{CASE.id}.txt"
    assert file.read_text() == "--- steady\na line\n"


def test_a_run_whose_kernels_print_nothing_leaves_nothing(tmp_path: Path, run: Run) -> None:
    keep(tmp_path, run, CASE, [Outcome(Role.STEADY)])
    assert list(tmp_path.iterdir()) == []
