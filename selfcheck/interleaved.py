"""Rounds of many cases, spread over one run as those of a matrix are; equal cases are told apart by their place."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernels.assignment import Assignment, Role
from kernels.case import Case
from kernels.measurement import Outcome, Status
from kernels.phase import Phase
from kernels.schedule import Runner
from kernels.statistics import per_call
from kernels.timing import Sampling


class NotMeasuredError(Exception):
    """A process of the self-check ended otherwise than ok: there is no figure to give."""


def take(runner: Runner, assignment: Assignment) -> Outcome:
    """Run an assignment that must succeed.

    Args:
        runner: gives the process.
        assignment: what to do.

    Returns:
        What the process left behind.

    Raises:
        NotMeasuredError: it ended otherwise than ok.
    """
    outcome = runner.run(assignment)
    if outcome.status is not Status.OK:
        raise NotMeasuredError(f"{assignment.case.id} is {outcome.status.value}: {outcome.reason}")
    return outcome


def interleaved(runner: Runner, cases: Sequence[Case], sampling: Sampling) -> list[list[Outcome]]:
    """Take the steady process of every case once per round, in an order that is shuffled anew for each round.

    Args:
        runner: gives the processes.
        cases: any number, equal ones too.
        sampling: how, the seed of the order included.

    Returns:
        For each case in its place, one outcome per round.

    Raises:
        NotMeasuredError: a process ended otherwise than ok.
    """
    rng = random.Random(sampling.seed)
    outcomes: list[list[Outcome]] = [[] for _ in cases]
    for number in range(sampling.rounds):
        for place in rng.sample(range(len(cases)), len(cases)):
            outcomes[place].append(take(runner, Assignment(cases[place], Role.STEADY, sampling, number)))
    return outcomes


def steady(outcomes: Sequence[Outcome]) -> list[list[float]]:
    """Read the steady samples.

    Args:
        outcomes: of one case's steady processes.

    Returns:
        Nanoseconds per call: rounds of samples.
    """
    readings = [reading for outcome in outcomes for reading in outcome.readings if reading.phase is Phase.STEADY]
    return per_call([reading.samples for reading in readings], [reading.inner_calls for reading in readings])
