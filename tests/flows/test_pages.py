"""Pages hold plain text: the fastest first, what is flagged apart, failures by reason, nothing for HTML to take."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import pages
from flows.brief import Brief
from flows.pages import Failure, Share
from kernels.case import Case
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase


def measured(mode: str, ns: int, flags: dict[str, str] | None = None, kernel: str = "dense") -> Brief:
    framework, _, name = mode.partition("/")
    case = Case(kernel, framework, name, "S", "float32")
    timing = Timing(Phase.STEADY, ((ns,) * 5,) * 3, (1,) * 3, {}, None, flags or {})
    return Brief.of(Measurement(case, Status.OK, None, (Phase.STEADY,), {Phase.STEADY: timing}, {}, {}, 3))


def lost(mode: str, reason: str, printed: str = "") -> Brief:
    framework, _, name = mode.partition("/")
    case = Case("dense", framework, name, "S", "float32")
    facts = {"output_tail": printed}
    return Brief.of(Measurement(case, Status.FAILED, reason, (Phase.STEADY,), {}, {}, facts, 0))


def test_of_each_kernel_the_fastest_stands_first_and_what_is_flagged_apart():
    rows = [
        measured("numpy/eager", 3_000_000),
        measured("jax/jit", 1_000_000),
        measured("numba/njit", 500, {"dead_work": "too fast"}),
        measured("jax/eager", 2_000_000),
        measured("jax/eager", 10, kernel="total"),
        lost("torch/eager", "it broke"),
    ]
    ranked, apart = pages.results(rows)
    assert [row["case"].removesuffix("-S-float32-cpu") for row in ranked] == [
        "dense-jax-jit", "dense-jax-eager", "dense-numpy-eager", "total-jax-eager",
    ]  # fmt: skip
    assert [row["notes"] for row in apart] == ["dead_work", "failed: it broke"]
    assert ranked[0]["x numpy"] == "3x"
    assert json.loads(json.dumps([ranked, apart], allow_nan=False)) == [ranked, apart]


def test_failures_are_told_by_reason_the_most_frequent_first_with_what_was_printed():
    found = [Failure(f"case-{number}", "failed", "it broke") for number in range(7)]
    found += [Failure("late", "timeout", "no end after 2 s", "first\nlast"), Failure("gone", "skipped", "excluded")]
    found += [Failure(f"away-{number}", "unavailable", "no GPU") for number in range(9)]
    page = pages.failures(found)
    assert re.findall(r"^### (.*)$", page, re.MULTILINE) == ["7 failed", "1 timeout", "9 unavailable", "1 skipped"]
    assert "`case-4` and 2 more" in page
    assert "case-5" not in page
    assert "`late` printed:\n\n```text\nfirst\nlast\n```" in page


def test_of_what_a_kernel_printed_the_first_lines_are_kept_and_long_ones_cut():
    kept = pages.failed(lost("jax/jit", "it broke", "\n".join(f"{n} {'x' * 9999}" for n in range(50)))).printed
    assert [line.split()[0] for line in kept.splitlines()] == [str(n) for n in range(8)]
    assert max(map(len, kept.splitlines())) == pages.COLUMNS


@given(st.text(alphabet="`~|<>*_[]ab \n"))
def test_no_text_ends_the_code_that_it_stands_in(value):
    block = pages.fenced(value)
    fence = block.split("text\n")[0]
    assert set(fence) == {"`"}
    assert fence not in value
    ticks = re.match("`+", pages.code(value)).group() if value.strip("` \n") else ""
    assert not ticks or ticks not in re.findall("`+", value)


def test_a_sweep_tells_of_every_backend_and_adds_up():
    counts = {"planned": 4, "ok": 3, "failed": 1, "skipped": 0}
    away = {"planned": 4, "ok": 0, "failed": 4, "skipped": 0}
    shares = [
        Share("cpu", "bench/cpu", "run-1", "CompletedWithFailedCases", counts),
        Share("gpu", "bench/gpu", "run-2", "Unavailable", away, "no worker took it in 60 s | <b>"),
    ]
    page = pages.sweep(shares, ["dense: 1.3x slower"], "plans/abc.parquet", "s3://bucket/results")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert rows[-1].split("|")[-5:-1] == [" 8 ", " 3 ", " 5 ", " 0 "]
    assert r"- gpu: no worker took it in 60 s \| \<b\>" in page
    assert "dense: 1.3x slower" in page
    assert "`plans/abc.parquet`" in page


@pytest.mark.parametrize("unsent", ["", "3 files wait"])
def test_the_files_of_a_run_are_named_with_what_reads_them(unsent):
    page = pages.files("run-1", ["s3://bucket/r/timings/x.parquet"], "s3://bucket/r", unsent)
    assert "- `s3://bucket/r/timings/x.parquet`" in page
    assert "jitmatrix query runs --results s3://bucket/r" in page
    assert "jitmatrix report --run run-1 --results s3://bucket/r" in page
    assert ("**3 files wait**" in page) == bool(unsent)


def test_the_files_of_a_run_name_the_newest_report_where_there_is_one():
    with_one = pages.files("run-1", ["x.parquet"], "results", report="results/reports/date=2026-12-03/a.html")
    assert "Newest report of these results: `results/reports/date=2026-12-03/a.html`" in with_one
    assert "Newest report" not in pages.files("run-1", ["x.parquet"], "results")


def test_a_report_names_its_first_runs_and_counts_the_others():
    page = pages.report("results/reports/a.html", 60, [f"run-{number}" for number in range(pages.RUNS + 3)])
    assert "Report `results/reports/a.html`\n\nCases 60, runs 23:" in page
    assert re.findall(r"^- (.*)$", page, re.MULTILINE)[-2:] == ["`run-19`", "and 3 more"]
