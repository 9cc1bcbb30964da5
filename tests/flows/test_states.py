"""The name of a final state says what happened; its type and the command's exit status say whether to look."""

from __future__ import annotations

import pytest

from flows import states

WELL = {"planned": 9, "ok": 8, "failed": 0, "skipped": 1}
ILL = {"planned": 9, "ok": 7, "failed": 1, "skipped": 1}
NONE = {"planned": 9, "ok": 0, "failed": 0, "skipped": 9}


@pytest.mark.parametrize(
    ("found", "unsent", "name", "status"),
    [
        (WELL, "", "Completed", 0),
        (ILL, "", "CompletedWithFailedCases", 1),
        (WELL, "3 files wait", "FailedToUpload", 1),
        (ILL, "3 files wait", "FailedToUpload", 1),
        (NONE, "", "Unavailable", 1),
    ],
)
def test_a_run_ends_in_the_state_of_what_must_be_seen_first(found, unsent, name, status):
    state = states.ended(found, unsent)
    assert state.name == name
    assert states.exit_status(state) == status
    assert (state.type.value == "COMPLETED") == (status == 0)
    assert "9 planned = {ok} ok + {failed} failed + {skipped} skipped".format(**found) in state.message
    assert unsent in state.message


@pytest.mark.parametrize(
    ("make", "name", "kind", "status"),
    [
        (states.nothing_to_do, "NothingToDo", "COMPLETED", 0),
        (states.regression, "Regression", "FAILED", 1),
        (states.damaged, "Damaged", "FAILED", 1),
        (states.refused, "Refused", "FAILED", 2),
        (states.unavailable, "Unavailable", "FAILED", 1),
    ],
)
def test_every_other_end_has_a_name_of_its_own(make, name, kind, status):
    state = make("in words")
    assert (state.name, state.type.value, state.message) == (name, kind, "in words")
    assert states.exit_status(state) == status


@pytest.mark.parametrize("found", [WELL, ILL, NONE])
@pytest.mark.parametrize("unsent", ["", "3 files wait"])
def test_the_counts_are_read_back_from_a_state_that_a_run_ended_in(found, unsent):
    assert states.recounted(states.ended(found, unsent).message) == found


def test_a_message_without_counts_gives_none():
    assert states.recounted("Process exited with status code: 1") is None
