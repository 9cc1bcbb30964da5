"""The page of findings: its numbers are those of the Parquet files, and its words follow from them."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows import findings_text
from flows.findings import main, page
from flows.query import ask
from flows.results import Run
from flows.storage import LocalRoot
from kernels.case import Case
from kernels.discovery import describe, suite
from kernels.errors import UsageError
from kernels.measurement import Measurement, Status
from kernels.progress import digits, duration
from tests.flows.stored import new_run
from tests.flows.test_query import EVENTS, measured, timed, write

MS = 1e6
AROUND = (0.99, 1.0, 1.01, 0.995, 1.005)
"""Five processes that agree within a hundredth."""


def case(kernel: str, name: str, dtype: str = "float32", size: str = "L") -> Case:
    return Case(kernel, *name.split("/"), size, dtype)


def cell(of: Case, around: Sequence[float] = AROUND, flags: dict[str, str] | None = None, **ms: float) -> Measurement:
    """Make a measurement of phases, in milliseconds, with a round for each factor."""
    timings = [timed(phase, *(value * MS * each for each in around), flags=flags) for phase, value in ms.items()]
    return measured(of, *timings)


def written(folder: Path, *measurements: Measurement, run: Run | None = None) -> str:
    write(folder, *measurements, run=run)
    return page(LocalRoot(folder))


def section(text: str, title: str) -> str:
    """Give a section's text."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def rows(text: str) -> list[list[str]]:
    """Give the cells of a section's table, without its head."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return lines[2:]


def number(text: str) -> float:
    """Read the number that a cell begins with."""
    return float(text.split(maxsplit=1)[0])


SINCOS = [
    cell(case("sincos", "numpy/eager"), first_call=20.0, steady=1.0),
    cell(case("sincos", "jax/eager"), first_call=30.0, steady=8.0, retrace=9.0),
    cell(case("sincos", "jax/jit"), first_call=90.0, steady=4.0, retrace=60.0, enqueue=0.02),
    cell(case("sincos", "numpy/eager", "float64"), first_call=22.0, steady=16.0),
    cell(case("sincos", "jax/jit", "float64"), first_call=95.0, steady=8.0, enqueue=0.02),
]
FIRST, PAYS, SHAPE = (
    "Is the first call slower than eager?",
    "After how many calls does compiling pay?",
    "What does a new shape cost?",
)
FORMS, JAX, HUNDREDFOLD = (
    "A decorator or a function?",
    "NumPy or JAX, at equal dtype?",
    "Where does the hundredfold come from?",
)
TORCH, CACHE, APART = (
    "NumPy or PyTorch?",
    "What is a result cache, and what is it not?",
    "What is flagged, and what failed",
)


def test_every_time_in_a_table_is_the_stored_median_with_its_interval(tmp_path: Path) -> None:
    text = written(tmp_path, *SINCOS)
    stored = ask(LocalRoot(tmp_path), "select case_id, phase, median_ns, low_ns, high_ns from latest", {}).table
    known = {(row["case_id"], row["phase"]): row for row in stored.to_pylist()}
    columns = {FIRST: {2: "first_call"}, PAYS: {2: "first_call", 3: "steady"}, JAX: {3: "steady"}}
    for title, phases in columns.items():
        table = rows(section(text, title))
        assert table, title
        for cells in table:
            kernel, size, dtype = cells[0].replace("`", "").split()
            case_id = "-".join([kernel, cells[1].replace("/", "-"), size, dtype, "cpu"])
            for column, phase in phases.items():
                row = known[case_id, phase]
                low, high = (digits(row[name] / MS) for name in ("low_ns", "high_ns"))
                assert cells[column] == f"{duration(row['median_ns'])} [{low}, {high}]"


def test_a_ratio_is_that_of_the_samples_in_the_files(tmp_path: Path) -> None:
    text = written(tmp_path, *SINCOS)
    sql = """
        select case_id, exp(avg(ln(middle))) as mean from (
            select case_id, round, median(elapsed_ns) as middle from samples where phase = 'steady' group by all
        ) group by all
    """
    means = {row["case_id"]: row["mean"] for row in ask(LocalRoot(tmp_path), sql, {}).table.to_pylist()}
    found = {tuple(cells[:2]): number(cells[4]) for cells in rows(section(text, JAX))}
    assert len(found) == 3
    for (named, mode), value in found.items():
        kernel, size, dtype = named.replace("`", "").split()
        ids = [f"{kernel}-{name.replace('/', '-')}-{size}-{dtype}-cpu" for name in (mode, "numpy/eager")]
        assert value == pytest.approx(means[ids[0]] / means[ids[1]], rel=0.01)


@pytest.mark.parametrize(
    ("factor", "around", "says"),
    [
        (2.0, AROUND, "NumPy is ahead in 1 of 1 cell, JAX in 0, unclear in 0"),
        (0.5, AROUND, "NumPy is ahead in 0 of 1 cell, JAX in 1, unclear in 0"),
        (1.02, (0.7, 1.0, 1.4, 0.8, 1.2), "NumPy is ahead in 0 of 1 cell, JAX in 0, unclear in 1"),
        (2.0, (1.0,), "NumPy is ahead in 0 of 1 cell, JAX in 0, unclear in 1"),
    ],
    ids=["longer", "shorter", "overlapping", "one process"],
)
def test_who_is_ahead_follows_from_the_rows(
    tmp_path: Path, factor: float, around: tuple[float, ...], says: str
) -> None:
    numpy = cell(case("sincos", "numpy/eager"), around, steady=10.0)
    jax = cell(case("sincos", "jax/jit"), around[::-1], steady=10.0 * factor)
    assert says in section(written(tmp_path, numpy, jax), JAX)


def test_the_quoted_comparison_has_an_answer_for_each_dtype_at_its_largest_size(tmp_path: Path) -> None:
    small = [cell(case("sincos", name, size="S"), steady=1.0) for name in ("numpy/eager", "jax/jit")]
    text = section(written(tmp_path, *small, *SINCOS), JAX)
    quoted = [line for line in text.splitlines() if line.startswith("- `sincos`")]
    assert [line.partition(";")[0] for line in quoted] == [
        "- `sincos` L float32, `jax/jit`: NumPy is ahead",
        "- `sincos` L float64, `jax/jit`: JAX is ahead",
    ]


def test_cases_of_one_thread_are_compared_with_such_cases_alone(tmp_path: Path) -> None:
    write(tmp_path, *SINCOS)
    alone = new_run()
    alone = replace(alone, order=replace(alone.order, workers=1))
    slow = [replace(each, timings={k: v for k, v in each.timings.items() if k == "steady"}) for each in SINCOS[:3:2]]
    found = rows(section(written(tmp_path, *slow, run=alone), JAX))
    assert [cells[0] for cells in found].count("`sincos` L float32, one thread") == 1
    assert len(found) == 4


@pytest.mark.parametrize(
    ("first", "says"), [(90.0, "longer in 1 of 1 cell, shorter in 0"), (9.0, "longer in 0 of 1 cell, shorter in 1")]
)
def test_the_first_call_is_longer_or_shorter_as_the_rows_say(tmp_path: Path, first: float, says: str) -> None:
    eager = cell(case("dense", "jax/eager"), first_call=30.0, steady=3.0)
    jit = cell(case("dense", "jax/jit"), first_call=first, steady=1.0)
    text = section(written(tmp_path, eager, jit), FIRST)
    assert f"`jax/jit`: {says}" in text
    assert f"; as long as {first / 3:.3g} later eager calls, at the median of 1 cell." in text
    (row,) = rows(text)
    assert number(row[5]) == pytest.approx(first / 30, rel=0.01)


def test_compiling_pays_after_what_it_cost_over_what_a_call_saves_or_never(tmp_path: Path) -> None:
    pays = [cell(case("dense", "jax/eager"), steady=3.0), cell(case("dense", "jax/jit"), first_call=41.0, steady=1.0)]
    never = [cell(case("total", "jax/eager"), steady=1.0), cell(case("total", "jax/jit"), first_call=41.0, steady=3.0)]
    text = section(written(tmp_path, *pays, *never), PAYS)
    assert "`jax/jit`: pays in 1 of 2 cells after 20 calls; never in 1, unclear in 0." in text
    assert {cells[0]: cells[6].split()[0] for cells in rows(text)} == {
        "`dense` L float32": digits((41 - 1) / (3 - 1)),
        "`total` L float32": "never",
    }


@pytest.mark.parametrize(
    ("compiles", "traces", "says"),
    [
        (0, 0, "no compilation is reported; the call"),
        (0, 5, "no compilation is reported, and it is traced again; the call"),
        (5, 5, "1 compilation for each"),
        (10, 10, "2 compilations for"),
    ],
)
def test_a_new_shape_costs_the_compilations_that_were_counted(
    tmp_path: Path, compiles: int, traces: int, says: str
) -> None:
    jit = cell(case("dense", "jax/jit"), first_call=8.0, steady=1.0, retrace=60.0)
    jit = replace(jit, facts={**jit.facts, "retrace_size": "M"})
    other = cell(case("dense", "jax/jit", size="M"), first_call=80.0, steady=2.0)
    again = replace(jit.timings["retrace"], events={**EVENTS, "compiles": compiles, "traces": traces})  # type: ignore[index]
    jit = replace(jit, timings={**jit.timings, again.phase: again})
    text = section(written(tmp_path / "both", jit, other), SHAPE)
    assert f"`jax/jit`: {says}" in text
    assert "the call takes 60 ms at the median of 1 cell; as long as 30 steady calls at that size," in text
    assert "; 0.75 [" in text
    alone = section(written(tmp_path / "alone", jit), SHAPE)
    assert "the call takes 60 ms at the median of 1 cell.\n" in alone
    (row,) = rows(alone)
    assert row[2] == "M"


def form(tmp_path: Path, name: str, program: str, **ms: float) -> Measurement:
    source = str(tmp_path / "forms.py")
    describe(source, {f"dense_{each}": suite()["dense"] for each in ("decorated", "function")})
    own = replace(case(f"dense_{name}", "jax/jit"), source=source, source_sha256="a" * 64)
    found = cell(own, **ms)
    return replace(found, facts={**found.facts, "program_hash": program * 64})


@pytest.mark.parametrize(
    ("programs", "first", "says"),
    [
        ("aa", 80.0, ("`first_call`: the decorated one takes longer in 0 of 1 cell", "same text in 1 of 1 pair")),
        ("ab", 160.0, ("`first_call`: the decorated one takes longer in 1 of 1 cell", "same text in 0 of 1 pair")),
    ],
)
def test_two_forms_of_one_kernel_are_compared(
    tmp_path: Path, programs: str, first: float, says: tuple[str, str]
) -> None:
    decorated = form(tmp_path, "decorated", programs[0], first_call=first, steady=1.0)
    function = form(tmp_path, "function", programs[1], first_call=80.0, steady=1.0)
    text = section(written(tmp_path / "root", decorated, function), FORMS)
    assert all(words in text for words in says)
    assert "`steady`: the decorated one takes longer in 0 of 1 cell, less in 0, unclear in 1; 1 [" in text
    assert {cells[2]: number(cells[5]) for cells in rows(text)} == {
        "first_call": pytest.approx(first / 80, rel=0.01),
        "steady": pytest.approx(1.0, rel=0.01),
    }
    assert "forms.py" not in text


def test_the_hundredfold_is_the_call_that_nobody_waits_for_beside_the_one_that_is(tmp_path: Path) -> None:
    text = section(written(tmp_path, *SINCOS), HUNDREDFOLD)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines[1] == (
        "- `sincos` L float64: 1000 calls of NumPy take 16 s. One call of `jax/jit` that is not waited for, times "
        "1000, seems to take 20 ms, 800 times as fast; 1000 calls that are waited for take 8 s, 2 times as fast."
    )
    assert "50 times as fast; 1000 calls that are waited for take 4 s, 0.25 times as fast." in lines[0]


@pytest.mark.parametrize(("hit", "says"), [(0.001, "longer in 0 of 1 cell, less in 1"), (4.0, "longer in 1 of 1 cell")])
def test_a_result_cache_is_a_look_up_and_its_flag_is_told(tmp_path: Path, hit: float, says: str) -> None:
    plain = cell(case("total", "python/plain", "float64"), first_call=2.0, steady=1.0)
    cached = cell(case("total", "python/lru_cache", "float64"), first_call=2.0)
    looked_up = cell(cached.case, steady=hit, flags={"memoised": "why"})
    both = replace(cached, timings={**cached.timings, **looked_up.timings})
    text = section(written(tmp_path, plain, both), CACHE)
    assert f"A hit against computing once more: {says}" in text
    assert "unclear in 1; 1 [" in text
    assert rows(text)[0][2].endswith("(memoised)")


def test_flagged_and_failed_rows_are_in_no_ratio_and_stand_apart_with_their_reasons(tmp_path: Path) -> None:
    numpy = cell(case("sincos", "numpy/eager"), steady=1.0)
    noisy = cell(case("sincos", "jax/jit"), steady=77.0, flags={"noisy": "why"})
    wrong = measured(case("dense", "jax/jit"), status=Status.WRONG, reason="output 0 differs by 3 | 4")
    text = written(tmp_path, numpy, noisy, wrong)
    said = "JAX: 1 case was timed, and none may be compared: the flags and failures stand below."
    assert section(text, JAX).strip() == said
    assert "77 ms" not in text
    apart = section(text, APART)
    assert "Flagged: 1 of 2 timings. Not ok: 1 of 3 cells." in apart
    assert "| `sincos` L float32 | jax/jit | steady | noisy |" in apart
    assert r"| wrong | output 0 differs by 3 \| 4 | 1 | `dense-jax-jit-L-float32-cpu` |" in apart


def test_what_is_compared_says_how_much_a_flag_kept_out(tmp_path: Path) -> None:
    flagged = [
        cell(case("sincos", name, "float64"), steady=1.0, flags={"noisy": "why"}) for name in ("numpy/eager", "jax/jit")
    ]
    text = section(written(tmp_path, *SINCOS[:3], *flagged), JAX)
    assert "by the geometric mean; 1 more cell may not be compared, for a flag or a status that is not ok." in text


def test_a_mode_of_which_no_cell_may_be_compared_is_named(tmp_path: Path) -> None:
    noisy = cell(case("sincos", "jax/eager"), steady=8.0, flags={"noisy": "why"})
    text = section(written(tmp_path, SINCOS[0], SINCOS[2], noisy), JAX)
    assert "- `jax/eager`: no cell may be compared, for a flag or a status that is not ok." in text


def test_what_numpy_was_not_measured_beside_is_no_flag(tmp_path: Path) -> None:
    alone = section(written(tmp_path, SINCOS[2]), JAX)
    assert alone.strip() == "JAX: 1 case was timed, and NumPy was not beside them."


def test_a_framework_whose_cases_failed_is_in_these_runs(tmp_path: Path) -> None:
    died = measured(case("sincos", "torch/eager"), status=Status.KILLED, reason="SIGKILL")
    text = section(written(tmp_path, *SINCOS, died), TORCH)
    assert text.strip() == "PyTorch: 1 case failed, and none was timed: the reasons stand below."


def test_a_call_that_returns_with_its_result_is_not_said_to_hide_its_work(tmp_path: Path) -> None:
    waiting = cell(case("sincos", "jax/jit"), steady=4.0, enqueue=4.0)
    text = section(written(tmp_path, SINCOS[0], waiting), HUNDREDFOLD)
    assert "until the result is there in 0 of 1 case:" in text
    assert "in 2 of 2 cases:" in section(written(tmp_path / "asynchronous", *SINCOS), HUNDREDFOLD)


def test_a_number_that_is_written_as_one_is_one() -> None:
    assert [findings_text.number(each, "call") for each in (1, 1.002, 0.9996, 1.1, 2)] == [
        "1 call", "1 call", "1 call", "1.1 calls", "2 calls",
    ]  # fmt: skip


def test_a_framework_that_is_missing_is_said_to_be_with_what_installs_it(tmp_path: Path) -> None:
    reason = "torch is not installed; pip install torch"
    gone = measured(case("sincos", "torch/eager"), status=Status.UNAVAILABLE, reason=reason)
    text = written(tmp_path, *SINCOS, gone)
    assert section(text, TORCH).strip() == f"PyTorch is not in these runs: {reason}."
    assert section(text, "NumPy or TensorFlow?").strip() == "TensorFlow is not in these runs."
    assert section(text, FORMS).strip() == "These runs have nothing that answers it."


def test_the_page_carries_machine_versions_commit_day_and_command_and_no_path(tmp_path: Path) -> None:
    run = new_run()
    versions = {"jax": "0.7.1", "numpy": "2.4.6"}
    old = replace(run.environment, versions=versions, commit="a" * 40, dirty=False, python="3.11.7")
    new = replace(old, versions={**versions, "jax": "0.7.2"}, commit="b" * 40, dirty=True)
    command = f"jitmatrix bench --matrix smoke --results {tmp_path} --workers 1"
    write(tmp_path, *SINCOS[:3], run=replace(run, environment=old, command=command))
    text = written(tmp_path, *SINCOS[3:], run=replace(new_run(), environment=new, command=None))
    head = text.partition("## ")[0]
    assert f"fingerprint `{run.machine.fingerprint}`" in head
    assert "Python 3.11.7, jax 0.7.1 and 0.7.2, numpy 2.4.6" in head
    end = section(text, "The runs")
    assert "| 2025-11-03 12:00 UTC | `aaaaaaaaaaaa` | 3 | 0 | 0 |" in end
    assert "| `bbbbbbbbbbbb` with changes | 2 | 0 | 0 |" in end
    assert "```text\njitmatrix bench --matrix smoke --workers 1\nno command repeats it\n```" in end
    assert str(tmp_path) not in text


def test_the_page_begins_with_a_sentence_of_each_answer_and_where_the_answer_is(tmp_path: Path) -> None:
    text = written(tmp_path, *SINCOS)
    lines = [line for line in section(text, "In short").splitlines() if line.startswith("- ")]
    short = {line.removeprefix("- [").partition("]")[0]: line for line in lines}
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert list(short) == [title for title in titles if title not in {"In short", "How to read it", "The runs"}]
    for title, line in short.items():
        # As sites that show Markdown make them: without punctuation, spaces as hyphens.
        assert f"(#{re.sub(r'[^a-z0-9 ]', '', title.lower()).replace(' ', '-')}) " in line
        assert line.partition(") ")[2] in section(text, title)
    assert "`jax/jit`: " in short[JAX]


def test_the_same_rows_give_the_same_page(tmp_path: Path) -> None:
    assert written(tmp_path, *SINCOS) == page(LocalRoot(tmp_path))


def test_a_mean_over_cells_is_that_of_their_ratios(tmp_path: Path) -> None:
    text = section(written(tmp_path, *SINCOS), JAX)
    (line,) = [line for line in text.splitlines() if line.startswith("- `jax/jit`: NumPy")]
    ratios = [number(cells[4]) for cells in rows(text) if cells[1] == "jax/jit"]
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    assert f"a call takes {digits(mean)} [" in line


def test_what_gives_no_page_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    other = new_run()
    other = replace(other, machine=replace(other.machine, cpu_model="another processor"))
    write(tmp_path / "two", *SINCOS)
    with pytest.raises(UsageError, match="runs of 2 machines"):
        written(tmp_path / "two", *SINCOS, run=other)
    calls: dict[str, list[Any]] = {
        "there are no results yet": [str(tmp_path / "empty")],
        "of 2 machines": [str(tmp_path / "two")],
        "usage: python -m flows.findings ROOT": [],
    }
    for says, arguments in calls.items():
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert says in err
        assert err.count("\n") == 1
