"""Ready questions: SQL files with a header that says what they answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "queries"

_VIEWS = "views"
_HEADER = re.compile(r"^-- (title|parameter|column)[: ] ?(.*)", re.MULTILINE)
_PARAMETER = re.compile(r"(\w+) = (.*?): (.*)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """What may be chosen in a question.

    Attributes:
        default: taken where nothing is chosen.
        text: what it is.
    """

    default: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A ready question.

    Attributes:
        name: of the file.
        title: what it answers, in a line.
        sql: the file.
        parameters: by name.
        columns: by name, those that need words.
    """

    name: str
    title: str
    sql: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)


def questions() -> dict[str, Question]:
    """Load the ready questions.

    Returns:
        Name to question, in alphabetical order.
    """
    files = sorted(path for path in FOLDER.glob("*.sql") if path.stem != _VIEWS)
    return {path.stem: _load(path) for path in files}


def _load(path: Path) -> Question:
    sql = path.read_text(encoding="utf-8")
    title, parameters, columns = "", dict[str, Parameter](), dict[str, str]()
    for kind, text in _HEADER.findall(sql):
        if kind == "title":
            title = text
        elif kind == "parameter":
            name, default, meaning = _PARAMETER.fullmatch(text).groups()  # type: ignore[union-attr]
            parameters[name] = Parameter(default, meaning)
        else:
            names, _, meaning = text.partition(": ")
            columns |= dict.fromkeys(names.split(", "), meaning)
    return Question(path.stem, title, sql, parameters, columns)
