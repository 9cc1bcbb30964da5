"""How a flow ends, as a Prefect state: the name says what happened, the type whether a watcher should look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Failed

COMPLETED = "Completed"
"""Every case is ok."""

NOTHING_TO_DO = "NothingToDo"
"""What was asked for is there already, or there is nothing of it: a complete run, no closed day, no run to report on.

Of type COMPLETED."""

FAILED_CASES = "CompletedWithFailedCases"
"""The run went to its end, and some case is not ok. Of type FAILED, so that whoever watches for failures sees it."""

FAILED_TO_UPLOAD = "FailedToUpload"
"""What was measured waits in the spool. Of type FAILED."""

DAMAGED = "Damaged"
"""Stored files are not what their markers say. Of type FAILED."""

REGRESSION = "Regression"
"""A case is slower than in the baseline. Of type FAILED."""

REFUSED = "Refused"
"""What was asked for, or where to write to, kept the flow from beginning; exit status 2. Of type FAILED."""

UNAVAILABLE = "Unavailable"
"""Nothing was measured: the device is held, no worker came, or nothing of the plan can run there. Of type FAILED."""


def completed(message: str) -> State[Any]:
    """Make the state of a flow of which all went well.

    Args:
        message: what was done.

    Returns:
        The state.
    """
    return Completed(message=message)


def nothing_to_do(message: str) -> State[Any]:
    """Make the state of a flow that found its work done.

    Args:
        message: what is there already.

    Returns:
        The state.
    """
    return Completed(name=NOTHING_TO_DO, message=message)


def failed_cases(message: str) -> State[Any]:
    """Make the state of a run that ended with cases that are not ok.

    Args:
        message: how many.

    Returns:
        The state.
    """
    return Failed(name=FAILED_CASES, message=message)


def failed_to_upload(message: str) -> State[Any]:
    """Make the state of a run whose results are not where they belong.

    Args:
        message: where they wait, and what sends them.

    Returns:
        The state.
    """
    return Failed(name=FAILED_TO_UPLOAD, message=message)


def damaged(message: str) -> State[Any]:
    """Make the state of a flow that found stored files that are not what their markers say.

    Args:
        message: how many, and what tells how to mend them.

    Returns:
        The state.
    """
    return Failed(name=DAMAGED, message=message)


def regression(message: str) -> State[Any]:
    """Make the state of a run that is slower than its baseline.

    Args:
        message: how many cases, and the worst.

    Returns:
        The state.
    """
    return Failed(name=REGRESSION, message=message)


def refused(message: str) -> State[Any]:
    """Make the state of a flow that did not begin.

    Args:
        message: what, where, the choices, how to mend it; in one line.

    Returns:
        The state.
    """
    return Failed(name=REFUSED, message=message)


def unavailable(message: str) -> State[Any]:
    """Make the state of a flow that had nothing to measure on.

    Args:
        message: what is missing or held, by whom, and what to do.

    Returns:
        The state.
    """
    return Failed(name=UNAVAILABLE, message=message)


def counted(found: Mapping[str, int]) -> str:
    """Write the equation that every run ends with.

    Args:
        found: planned, ok, failed, skipped, as ``flows.results.counts`` gives them.

    Returns:
        Such as ``9 planned = 8 ok + 1 failed + 0 skipped``.
    """
    return "{planned} planned = {ok} ok + {failed} failed + {skipped} skipped".format(**found)


def recounted(message: str) -> dict[str, int] | None:
    """Read the equation of a run's message, where the run itself cannot be read.

    Args:
        message: of a state that ``ended`` has made, or of any other.

    Returns:
        planned, ok, failed, skipped; None where the message does not begin with them.
    """
    pattern = r"(?P<planned>\d+) planned = (?P<ok>\d+) ok \+ (?P<failed>\d+) failed \+ (?P<skipped>\d+) skipped"
    found = re.match(pattern, message)
    return {name: int(value) for name, value in found.groupdict().items()} if found else None


def ended(found: Mapping[str, int], unsent: str = "") -> State[Any]:
    """Choose the state of a run that went to its end.

    Args:
        found: planned, ok, failed, skipped, as ``flows.results.counts`` gives them.
        unsent: why results are not where they belong; empty where they are there.

    Returns:
        What must be seen first: results that are not stored, then cases that are not ok, then that nothing ran.
    """
    message = counted(found)
    if unsent:
        return failed_to_upload(f"{message}; {unsent}")
    if found["failed"]:
        return failed_cases(message)
    if not found["ok"]:
        return unavailable(f"{message}: nothing of it can be measured here")
    return completed(message)


def exit_status(state: State[Any]) -> int:
    """Give the exit status of a command whose flow ended in a state.

    Args:
        state: final.

    Returns:
        0 when all is well, 2 for what was asked wrongly, 1 otherwise.
    """
    if state.name == REFUSED:
        return 2
    return 0 if state.type is StateType.COMPLETED else 1
