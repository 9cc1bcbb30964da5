"""The curve of detection rises with the slowdown and with the rounds, and is drawn as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from selfcheck.curve import SLOWDOWNS, main, points, specification
from selfcheck.simulated import Pair, alarms, detection


def test_a_large_slowdown_is_found_more_often_than_a_small_one_and_by_more_rounds() -> None:
    found = points(comparisons=2)
    names = list(dict.fromkeys(each["series"] for each in found))
    assert len(found) == len(names) * len(SLOWDOWNS)
    for name in names:
        shares = [each["found"] for each in found if each["series"] == name]
        assert shares[0] == 0
        assert shares[-1] == 100
    assert detection(Pair(20, slowed=6), 5, 0) > detection(Pair(5, slowed=6), 5, 0)
    assert alarms(Pair(5), 5, 0) == 0


def test_the_picture_holds_every_line() -> None:
    import vl_convert

    found = points(comparisons=1)
    picture = vl_convert.vegalite_to_svg(specification(found))
    text = "".join(ElementTree.fromstring(picture).itertext())
    for name in {str(each["series"]) for each in found}:
        assert name in text


def test_without_a_file_it_says_how_it_is_used(capsys) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m selfcheck.curve FILE.svg\n"
