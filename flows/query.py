"""One query over stored results: a ready question by its name, or SQL; it reads and changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from flows.questions import questions
from flows.reading import Reading, look
from flows.storage import Root
from kernels.errors import UsageError, unknown
from kernels.frameworks import modes

_LOOKS = 5
_T = TypeVar("_T")
_NAME = re.compile(r"[\w-]+")
# PIVOT counts as several statements, of which none can write more than a type in memory.
_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found.

    Attributes:
        table: the rows.
        aside: key to the reason why a stored file was not read.
        files: how many were.
    """

    table: pa.Table
    aside: dict[str, str]
    files: int


def ask(root: Root, text: str, values: Mapping[str, str]) -> Answer:
    """Ask stored results.

    Args:
        root: of the results.
        text: name of a ready question, or SQL over the views timings, runs, plans, samples and latest.
        values: parameter to its value.

    Returns:
        The answer.

    Raises:
        UsageError: no such question, parameter or baseline; a mistake in the SQL; a statement that does not only read.
        StorageError: the root cannot be read.
    """
    sql, defaults = text, dict[str, str]()
    if _NAME.fullmatch(text.strip()):
        known = questions()
        if text.strip() not in known:
            raise unknown("question", text.strip(), known, "jitmatrix query NAME|SQL")
        question = known[text.strip()]
        sql, defaults = question.sql, {name: each.default for name, each in question.parameters.items()}
        if "baseline" in defaults and "baseline" in values and values["baseline"] not in modes():
            raise unknown("baseline", values["baseline"], modes(), "--set")
    try:
        found, reading = looked(root, lambda connection: _answer(connection, sql, {**defaults, **values}))
    except duckdb.Error as error:
        raise UsageError(f"query: {explain(error, sql)}") from None
    return Answer(found, reading.aside, len(reading.files))


def looked(root: Root, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> tuple[_T, Reading]:
    """Look at a root and ask its views; where files turn out to be damaged or gone, look again without them.

    Args:
        root: of the results.
        work: asks the views; it is called again after another look.

    Returns:
        What it found, and the look that it was found in.

    Raises:
        UsageError: files come and go faster than they can be read.
        StorageError: the root cannot be read.
    """
    bad: dict[str, str] = {}
    for _ in range(_LOOKS):
        reading = look(root, bad)
        try:
            return work(reading.connection), reading
        except duckdb.Error as error:
            found = reading.damaged() if _of_a_file(error) else {}
            gone = _of_a_file(error) and any(words in str(error) for words in ("No such file", "does not exist"))
            if not found and not gone:
                raise
            bad |= found
    raise UsageError("query: files come and go faster than they can be read; ask again")


def parameters(settings: Iterable[str]) -> dict[str, str]:
    """Read settings of parameters.

    Args:
        settings: each as name=value.

    Returns:
        Name to value.

    Raises:
        UsageError: one has no name or no equals sign.
    """
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set {setting}: write name=value, such as baseline=numpy/eager")
        values[name] = value
    return values


def explain(error: duckdb.Error, sql: str) -> str:
    """Say in one line what DuckDB found wrong, and where.

    Args:
        error: DuckDB's, as JSON.
        sql: what was asked.

    Returns:
        Its words, with line and column where it names a place.
    """
    kind, brace, rest = str(error).partition("{")
    try:
        found: dict[str, Any] = json.loads(brace + rest)
    except ValueError:
        return " ".join(str(error).split())
    words = " ".join(f"{kind}{found['exception_message']}".split())
    if "position" not in found:
        return words
    before = sql.encode()[: int(found["position"])].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return f"{words} (line {line}, column {column})"


def _answer(connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, str]) -> pa.Table:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"query: {len(statements)} statements; give one")
    if statements[0].type not in _READING:
        raise UsageError(f"query: {statements[0].type.name} does not only read; results are changed by bench alone")
    taken = statements[0].named_parameters
    for name in values:
        if name not in taken:
            raise unknown("parameter", name, sorted(taken), "--set")
    for name in sorted(taken - values.keys()):
        raise UsageError(f"query: the parameter ${name} has no value; give one: --set {name}=…")
    try:
        return connection.sql(sql, params=dict(values) or None).to_arrow_table()
    except duckdb.Error as error:
        if not str(error).partition("{")[1]:
            # Asked in this way, it names the place.
            connection.execute(sql, dict(values) or None)
        raise


def _of_a_file(error: duckdb.Error) -> bool:
    """Tell whether a query failed over what it read rather than over how it was written."""
    return isinstance(error, duckdb.InvalidInputException | duckdb.IOException) and '"position"' not in str(error)
