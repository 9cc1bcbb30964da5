"""A user's own kernels in the command and the flow: started, measured beside the suite's, stored with their source."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import pytest

from flows.bench import bench, command
from flows.order import Order
from kernels import starting
from kernels.reference import Reference
from kernels.selection import Filters
from tests.flows.conftest import Command


@pytest.mark.usefixtures("shared_server")
def test_a_new_kernel_is_written_measured_and_stored_with_its_source(jitmatrix: Command, tmp_path: Path) -> None:
    written = jitmatrix("new-kernel", "mine")
    assert written.returncode == 0, written.stderr
    assert written.stdout == (
        "mine.py: written; measure it: jitmatrix bench --kernel ./mine.py --size S --dtype float32 --quick\n"
    )

    axes = ("--framework", "numpy", "--size", "S", "--dtype", "float64", "--rounds", "1", "--budget", "0.02")
    done = jitmatrix("bench", "--kernel", "double", "--kernel", "./mine.py", *axes)

    assert done.returncode == 0, done.stderr
    assert "2 planned = 2 ok + 0 failed + 0 skipped" in done.stdout
    file = tmp_path / "mine.py"
    query = f"select distinct kernel, source, source_sha256 from '{tmp_path}/results/timings/*/*.parquet' order by 1"
    assert duckdb.sql(query).fetchall() == [
        ("double", None, None),
        ("mine", str(file), hashlib.sha256(file.read_bytes()).hexdigest()),
    ]
    ((repeat,),) = duckdb.sql(f"select command from '{tmp_path}/results/runs/*/*.parquet'").fetchall()
    assert repeat.startswith("jitmatrix bench --matrix all --kernel double --kernel ./mine.py --framework numpy ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bench", "--kernel", "./mine.py"), "mine.py:1: SyntaxError: '(' was never closed; mend that line"),
        (("bench", "--kernel", "./none.py"), "--kernel ./none.py: no such file; jitmatrix new-kernel NAME writes one"),
        (("bench", "--kernel", "none:kernel"), "--kernel none: no module named none here"),
        (("new-kernel", "mine"), "mine.py: is there already; take another name, or remove it"),
        (("new-kernel", "Mine"), "kernel name 'Mine': use a lower-case identifier"),
        (("new-kernel", "dense"), "the suite has one of that name"),
        (("new-kernel", "other", "--to", "nowhere"), "nowhere/other.py: cannot be written"),
        (("new-kernel",), "requires an argument"),
    ],
)
def test_bad_input_is_one_line_and_status_2_and_writes_nothing(
    jitmatrix: Command, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "mine.py").write_text("KERNEL = (\n")
    done = jitmatrix(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_the_flow_says_in_its_state_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("KERNEL = 1\n")
    # The order is refused before the flow needs a server.
    state = bench.fn(kernel=[str(file)], results=str(tmp_path / "results"))
    assert state.is_failed()
    assert f"{file}:1: no Kernel in it" in str(state.message)
    assert not (tmp_path / "results").exists()


def test_a_matrix_may_name_a_file_and_the_command_repeats_a_path_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    file = starting.write("mine", folder)
    matrix = tmp_path / "own.toml"
    matrix.write_text(f'kernels = ["double", "{file}"]\nframeworks = ["numpy/eager"]\nsizes = ["S"]\n')

    named = Order.of(str(matrix), Filters(), {}, str(tmp_path))
    asked = Order.of(None, Filters(kernel=(str(file),)), {}, str(tmp_path))

    assert {case.kernel for case in named.plan.cases} == {"double", "mine"}
    assert {case.source for case in asked.plan.cases} == {Reference.of(str(file)).source}
    assert f"--matrix all --kernel '{file}'" in str(command(asked))


def test_without_a_matrix_the_suite_is_measured_by_seeds(tmp_path: Path) -> None:
    assert Order.of(None, Filters(kernel=("double",)), {}, str(tmp_path)).matrix.name == "seeds"
