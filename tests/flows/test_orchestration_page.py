"""The page of orchestration says what the code does: states, events, and tests that exist."""

from __future__ import annotations

import re

from flows import events, states
from tests.flows.conftest import ROOT

PAGE = (ROOT / "docs" / "orchestration.md").read_text()


def test_every_state_is_in_the_table_with_its_type_and_exit_status():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d) \|", PAGE, re.MULTILINE)
    made = [
        states.completed(""), states.nothing_to_do(""), states.failed_cases(""), states.failed_to_upload(""),
        states.regression(""), states.damaged(""), states.unavailable(""), states.refused(""),
    ]  # fmt: skip
    assert rows == [(state.name, state.type.value.lower(), str(states.exit_status(state))) for state in made]
    names = {value for name, value in vars(states).items() if name.isupper()}
    assert names == {state.name for state in made}


def test_the_events_are_those_that_are_sent():
    assert re.findall(r"^\| `(jitmatrix\.[a-z.]+)` \|", PAGE, re.MULTILINE) == [events.FINISHED, events.REGRESSION]


def test_the_tests_that_are_named_exist():
    for name in re.findall(r"`(test_\w+\.py)`", PAGE):
        assert (ROOT / "tests" / "flows" / name).is_file(), name


def test_the_webhook_file_holds_the_zeros_that_the_command_replaces_once():
    (zeros,) = re.findall(r'sed "s/([0-9-]{36})/', PAGE)
    assert (ROOT / "flows" / "webhook.yaml").read_text().count(zeros) == 1
