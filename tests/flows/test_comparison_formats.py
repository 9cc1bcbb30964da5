"""A comparison in each format says the same, whatever names and reasons hold."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from flows.changes import Change
from flows.comparison import Compared, Comparison, Left, Mean
from flows.comparison_formats import ROWS, javascript, junit, markdown, show
from flows.comparison_text import LISTED, lines, summary
from flows.decisions import Between
from flows.references import StoredRun
from flows.sides import Key
from kernels.phase import Phase
from kernels.statistics import Estimate, Verdict

UNSAID = "\x1b[31mexit <status> 1 | @someone\x00"


def case(
    name: str, verdict: Verdict, ratio: float = 1.0, decided: bool = True, changes: Sequence[Change] = ()
) -> Compared:
    key = Key(f"{name}-jax-jit-M-float32-cpu", "{}", False, 0, False)
    phase = Phase.STEADY if decided else Phase.COMPILE
    value = Estimate(ratio, ratio * 0.97, ratio * 1.03)
    return Compared(
        key, phase, name, "jax/jit", "cpu", 1e6, 1e6 * ratio, value, tuple(changes), decided, 0.001, 0.004, verdict
    )


def comparison(*cases: Compared, lost: Sequence[Left] = (), flagged: Sequence[Left] = ()) -> Comparison:
    runs = [(StoredRun(f"0000000{n}-0000-7000-8000-000000000000", None, True, {"matrix": "smoke"}),) for n in (1, 2)]
    means = (Mean(Phase.STEADY, "all", len(cases), Estimate(1.05, 1.01, 1.09)),)
    return Comparison(
        *runs,
        smallest=0.05,
        phases=(Phase.STEADY,),
        machines=("cpu: a → b",),
        between={Phase.STEADY: Between(0.021, 40)},
        cases=cases,
        lost=tuple(lost),
        new=(Left("dense-new", "not in the baseline"),),
        flagged=tuple(flagged),
        means=means,
        of=len(cases) + len(lost),
    )


FOUND = comparison(
    case("dense", Verdict.SLOWER, 1.2, changes=[Change("jax", "0.7.1", "0.7.2")]),
    case("double", Verdict.FASTER, 0.5),
    case("total", Verdict.SAME),
    case("total", Verdict.SLOWER, 2.0, decided=False),
    lost=[Left("sincos", UNSAID, broken=True), Left("sort", "not in the candidate")],
    flagged=[Left("rnn steady", "noisy in the candidate")],
)


def test_the_table_shows_what_is_not_the_same_and_every_name_that_is_not_compared() -> None:
    out = io.StringIO()
    show(FOUND, Console(file=out, width=250))
    text = out.getvalue()
    for words in (
        "DIFFERENT MACHINES, cpu: a → b",
        f"compared: {FOUND.common} of {FOUND.of} cases",
        "1.200x [1.16, 1.24]",
        "jax 0.7.1 → 0.7.2",
        "2.1 % (40 unchanged cases)",
        "lost: sort: not in the candidate",
        "new: dense-new: not in the baseline",
        "flagged, not compared: rnn steady: noisy in the candidate",
    ):
        assert words in text
    assert "same     total" not in text


def test_the_summary_for_a_pull_request_opens_with_what_is_wrong_and_holds_no_markup_of_others() -> None:
    text = markdown(FOUND)
    assert text.startswith("## jitmatrix: 1 slower, 1 failing that were ok\n")
    assert (
        "| `dense-jax-jit-M-float32-cpu` | steady | 1 ms → 1.2 ms | 1.200x [1.16, 1.24] | jax 0.7.1 → 0.7.2 |" in text
    )
    assert "&lt;status> 1 \\| &#64;someone" in text
    assert "<details>\n<summary>1 faster</summary>" in text
    assert markdown(comparison(case("total", Verdict.SAME))).startswith("## jitmatrix: no regression\n")


def test_a_summary_of_very_many_cases_fits_into_a_comment() -> None:
    many = [case(f"kernel_{n}", Verdict.SLOWER, 1.2, changes=[Change("jax", "0.7.1", "0.7.2")]) for n in range(2000)]
    text = markdown(comparison(*many))
    assert f"and {2000 - ROWS} more" in text
    assert len(text) < 65_536


def test_json_holds_every_case_with_its_numbers() -> None:
    value = json.loads(javascript(FOUND))
    assert value["passed"] is False
    assert [each["verdict"] for each in value["cases"]] == ["slower", "faster", "same", "slower"]
    assert value["cases"][0]["changes"] == [{"name": "jax", "before": "0.7.1", "after": "0.7.2"}]
    assert value["between_runs"] == {"steady": {"deviation": 0.021, "controls": 40}}
    assert value["lost"][0] == {"case": "sincos", "reason": UNSAID, "broken": True}
    endless = Estimate(1.0, 0.0, float("inf"))
    unbounded = json.loads(
        javascript(comparison(Compared(FOUND.cases[0].key, Phase.STEADY, "k", "f", "cpu", 1, 1, endless)))
    )
    assert unbounded["cases"][0] | {"low": None, "high": None, "p_value": None} == unbounded["cases"][0]


def test_junit_fails_what_is_slower_or_fails_now_and_skips_what_is_not_compared() -> None:
    suite = ElementTree.fromstring(junit(FOUND).partition("\n")[2]).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "skipped": "2",
    }
    failed = {
        test.get("name"): test.find("failure").get("message") for test in suite if test.find("failure") is not None
    }
    assert set(failed) == {"dense-jax-jit-M-float32-cpu", "sincos"}
    assert "1.200x" in failed["dense-jax-jit-M-float32-cpu"]
    assert failed["sincos"] == "[31mexit <status> 1 | @someone"


def test_the_lines_hold_the_worst_first_and_a_bounded_number_of_names() -> None:
    text = lines(FOUND)
    assert next(line for line in text if line.startswith("slower")).startswith(
        "slower: dense-jax-jit-M-float32-cpu steady"
    )
    lost = [Left(f"case-{n:03}", "not in the candidate") for n in range(100)]
    text = lines(comparison(case("total", Verdict.SAME), lost=lost))
    assert f"lost: {100 - LISTED} more" in text
    assert len([line for line in text if line.startswith("lost")]) == LISTED + 1


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (FOUND, "1 same, 1 faster, 1 slower, 0 unclear; 1 failing that were ok; slower: dense-jax-jit"),
        (comparison(case("total", Verdict.SAME)), "1 of 1 cases compared; 1 same, 0 faster, 0 slower, 0 unclear"),
    ],
)
def test_the_summary_is_one_line(found: Comparison, says: str) -> None:
    assert says in summary(found)
    assert "\n" not in summary(found)


def test_a_phase_that_decides_and_of_which_nothing_is_compared_is_shown() -> None:
    found = replace(FOUND, phases=(Phase.STEADY, Phase.FIRST_CALL))
    out = io.StringIO()
    show(found, Console(file=out, width=250))
    assert "first_call 0 0 0 0 0" in [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "| first_call | 0 | 0 | 0 | 0 | 0 |  |  |" in markdown(found)


def test_what_is_said_of_a_case_is_one_line_and_the_same_case_with_cold_inputs_has_its_own() -> None:
    cases = [("rnn", Phase.STEADY), ("rnn", Phase.PIPELINED), ("rnn (cold)", Phase.STEADY)]
    out = io.StringIO()
    show(
        replace(FOUND, flagged=tuple(Left(f"{name} {phase}", "noisy", phase=phase) for name, phase in cases)),
        Console(file=out),
    )
    assert [line for line in out.getvalue().splitlines() if line.startswith("flagged")] == [
        "flagged, not compared: rnn steady: noisy; pipelined: noisy",
        "flagged, not compared: rnn (cold) steady: noisy",
    ]
