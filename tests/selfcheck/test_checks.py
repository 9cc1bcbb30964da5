"""Every check runs at its shortest, prints its figures with bounds and settings, and leaves them in a file."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math

import numpy as np
import pytest

from kernels import workers as pinned
from kernels.case import Case
from kernels.isolation import Isolation
from kernels.measurement import Outcome, Status
from kernels.phase import Phase
from kernels.timing import Sampling
from selfcheck.__main__ import CHECKS, main
from selfcheck.browser import CHROMIUM
from selfcheck.interleaved import NotMeasuredError, interleaved, steady
from selfcheck.interpreter import FreshInterpreter
from selfcheck.own import CHAINS, case, chain

TINY = Sampling(rounds=2, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0, timeout_s=60.0)
FIGURES = {
    "agreement": 4,
    "reproducibility": 5,
    "coverage": 2,
    "compare": 6,
    "cost": 5,
    "workers": 2,
    "seeds": 1,
    "storage": 10,
    "orchestration": 7,
    "report": 4,
}


# Orchestration starts a server and a dozen processes that import Prefect: minutes on a machine that does much else.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_prints_its_figures_and_writes_them(name, tmp_path, capsys):
    if name == "workers" and len(pinned.cores()) < 2:
        pytest.skip("one core alone is in the affinity")
    if name == "report" and CHROMIUM is None:
        pytest.skip("no Chromium on PATH")
    file = tmp_path / "figures.json"
    # Reached or missed is the machine's affair; 2 would be an error.
    assert main([name, "--quick", "--json", str(file)]) in (0, 1)
    printed, written = capsys.readouterr().out, json.loads(file.read_text())
    # These two measure commands, of which the seed is one of the options, or the default.
    seed = {"compare": "'--seed', '0'", "orchestration": "rounds="}.get(name, "seed=0")
    assert ("machine:" in printed and "settings: Settings(" in printed and seed in printed) or name == "seeds"
    figures = written["checks"][name]["figures"]
    assert len(figures) == FIGURES[name]
    for figure in figures:
        assert math.isfinite(figure["measured"])
        assert figure["what"] in printed
    reached = sum(figure["reached"] for figure in figures)
    assert f"{reached} of {len(figures)} figures reached" in printed


@pytest.mark.parametrize("name", CHECKS)
def test_quick_differs_from_the_record_in_nothing_but_length(name):
    module = importlib.import_module(f"selfcheck.{name}")
    assert isinstance(module.QUICK, module.Settings)
    assert dataclasses.fields(module.QUICK) == dataclasses.fields(module.Settings())


def test_a_name_that_is_no_check_is_one_line_and_status_2(capsys):
    assert main(["agreemnt"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "agreement" in err


def test_a_file_that_cannot_be_written_is_known_before_anything_is_measured(tmp_path, capsys):
    assert main(["seeds", "--json", str(tmp_path / "missing" / "x.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


class Script:
    """A runner that measures nothing: it notes what it was asked for."""

    def __init__(self, status: Status = Status.OK) -> None:
        self.asked, self.status = [], status

    def run(self, assignment):
        self.asked.append(assignment)
        return Outcome(assignment.role, self.status, None)


def test_equal_cases_are_told_apart_by_their_place_and_each_round_takes_every_case_once():
    runner, cell = Script(), chain("numpy/eager")
    outcomes = interleaved(runner, [cell] * 6, Sampling(rounds=3))
    assert [len(of_case) for of_case in outcomes] == [3] * 6
    assert len({id(outcome) for of_case in outcomes for outcome in of_case}) == 18
    assert [assignment.round for assignment in runner.asked] == [0] * 6 + [1] * 6 + [2] * 6


def test_the_order_is_shuffled_and_the_seed_decides_it():
    cells = [*map(chain, CHAINS), case("double", "jax/jit", "S"), case("dense", "jax/jit", "S")]

    def order(seed: int) -> list[Case]:
        runner = Script()
        interleaved(runner, cells, Sampling(rounds=4, seed=seed))
        return [assignment.case for assignment in runner.asked]

    assert order(0) == order(0)
    assert len({tuple(order(seed)) for seed in range(5)}) == 5


def test_a_process_that_fails_ends_the_check_in_words():
    with pytest.raises(NotMeasuredError, match="chain_numpy-numpy-eager-S-float32-cpu is failed"):
        interleaved(Script(Status.FAILED), [chain("numpy/eager")], TINY)


@pytest.mark.parametrize("cell", [*map(chain, CHAINS), case("mlp", "jax/jit", "S", "mlp")])
def test_the_own_kernels_are_right_and_raise_no_flag(cell):
    with Isolation() as isolation:
        ((outcome, again),) = interleaved(isolation, [cell], TINY)
    trusted = [finding for finding in outcome.findings + again.findings if finding.flag.value not in ("throttled",)]
    assert trusted == []
    assert np.asarray(steady([outcome, again])[0]).min() > 0


def test_a_fresh_interpreter_does_what_a_fork_does():
    cell = case("double", "jax/jit", "S")
    with Isolation() as isolation:
        ((fork,),) = interleaved(isolation, [cell], dataclasses.replace(TINY, rounds=1))
    ((fresh,),) = interleaved(FreshInterpreter(), [cell], dataclasses.replace(TINY, rounds=1))
    assert [reading.phase for reading in fresh.readings] == [reading.phase for reading in fork.readings]
    assert Phase.COMPILE in {reading.phase for reading in fresh.readings}
    assert fresh.facts["program_hash"] == fork.facts["program_hash"]


def test_a_fresh_interpreter_that_fails_says_why():
    with pytest.raises(NotMeasuredError, match="nothing of that name"):
        interleaved(FreshInterpreter(), [case("nothing of that name", "numpy/eager", "S")], TINY)
