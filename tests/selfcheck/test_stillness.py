"""The machine's own evenness is told in one line, relative to its fastest moment."""

from __future__ import annotations

import re

from selfcheck.stillness import stillness


def test_nothing_is_faster_than_the_fastest_and_the_slowest_are_not_faster_than_the_median():
    middle, slow = map(float, re.findall(r"\d+\.\d+", stillness(0.2)))
    assert 1 <= middle <= slow
