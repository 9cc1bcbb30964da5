"""A run tells of itself in short lines, and its count adds up."""

from __future__ import annotations

import pytest

from kernels.case import Case
from kernels.host_check import Check
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.progress import Tally, duration, flags, number, off, reasons


def row(status, reason=None, framework="numpy", steady=None, flagged=()):
    timings = {}
    if steady:
        timings[Phase.STEADY] = Timing(
            Phase.STEADY, steady, (1,) * len(steady), {}, None, dict.fromkeys(flagged, "why")
        )
    return Measurement(Case("sincos", framework, "eager", "S", "float32"), status, reason, (), timings, {}, {}, 1)


def tally_of(*rows, asked_for=False):
    tally = Tally(len(rows), lambda _: asked_for)
    for one in rows:
        tally.add(one)
    return tally


def test_planned_is_ok_and_failed_and_skipped():
    tally = tally_of(*map(row, Status))

    assert tally.closing() == "planned 7 = ok 1 + failed 4 + skipped 2 (unavailable 1)"
    assert not tally.all_well


@pytest.mark.parametrize("status", [Status.WRONG, Status.FAILED, Status.TIMEOUT, Status.KILLED])
def test_one_row_that_went_wrong_is_not_well(status):
    assert not tally_of(row(Status.OK), row(status)).all_well


def test_what_is_unavailable_is_well_unless_it_was_asked_for():
    rows = row(Status.OK), row(Status.UNAVAILABLE), row(Status.SKIPPED)

    assert tally_of(*rows).all_well
    assert not tally_of(*rows, asked_for=True).all_well
    assert "failed 1 + skipped 1 (unavailable 1)" in tally_of(*rows, asked_for=True).closing()


def test_a_run_that_measured_nothing_is_not_well():
    assert not tally_of(row(Status.SKIPPED), row(Status.UNAVAILABLE)).all_well
    assert not tally_of().all_well


def test_a_line_holds_the_median_of_the_rounds_medians_and_the_flags():
    one = row(Status.OK, steady=((1_000, 1_000, 9_000), (3_000, 3_000), (2_000,)), flagged=["noisy", "contended"])
    tally = Tally(9, lambda _: False)
    tally.add(one)

    assert tally.line(one) == "1/9  sincos-numpy-eager-S-float32-cpu  ok  2 µs  contended,noisy"
    assert flags(one) == ["contended", "noisy"]


def test_a_line_of_a_failure_has_its_reason():
    one = row(Status.TIMEOUT, "no end after 1 s")
    tally = Tally(1, lambda _: False)
    tally.add(one)

    assert tally.line(one) == "1/1  sincos-numpy-eager-S-float32-cpu  timeout  (no end after 1 s)"


def test_settled_rows_are_a_line_for_each_reason():
    rows = [row(Status.UNAVAILABLE, "jax is not installed")] * 3 + [row(Status.SKIPPED, "float64 only")]

    assert reasons(rows) == ["3 unavailable: jax is not installed", "1 skipped: float64 only"]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.25, "0.25 ns"),
        (1, "1 ns"),
        (999.4, "999 ns"),
        (999.6, "1 µs"),
        (1234, "1.23 µs"),
        (5e6, "5 ms"),
        (61e9, "61 s"),
    ],
)
def test_a_duration_has_three_digits_and_its_unit(ns, text):
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1.2, "1.2 runs"), (64902, "64902 runs")]
)
def test_how_many_there_are_is_in_words_that_are_right_for_one_too(count, text):
    assert number(count, "run") == text


def test_what_is_off_is_one_line_and_what_is_well_is_none():
    well = Check("governor", True, "performance", None)
    bad = Check("load", False, "3.2 on 2 processors", "wait")

    assert off([well], "x") is None
    assert off([well, bad, bad], "x").count("\n") == 0
    assert "load: 3.2 on 2 processors" in off([well, bad], "x")
