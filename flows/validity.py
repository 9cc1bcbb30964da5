"""Are rows what the schema says? A fault is named by case and column before anything of them is written."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernels.case import Backend
from kernels.measurement import Status
from kernels.phase import Phase

WORDS: Mapping[str, tuple[str, ...]] = {
    "status": tuple(each.value for each in Status),
    "phase": tuple(each.value for each in Phase),
    "backend": tuple(each.value for each in Backend),
}
"""Columns that hold one of a few words."""

_LEAST = {"samples": 0, "inner_calls": 1}
_NULL = type(None)
_SAMPLES = pa.list_(pa.list_(pa.int64()))
_REFUSALS = (pa.ArrowException, OverflowError, UnicodeError)

Rows = Sequence[Mapping[str, Any]]


def arrays(rows: Rows, columns: pa.Schema) -> list[pa.Array]:
    """Make the columns of rows, and check them: by column, since what is asked of every sample must cost little.

    Args:
        rows: column to value; what is not there is null.
        columns: the schema.

    Returns:
        An array for each column.

    Raises:
        ValueError: a column is not in the schema, or a value is not what its column holds: of another type, not finite,
            without a time zone, an unknown word, less than it can be, or rounds and inner calls that do not match.
    """
    given = set[str]().union(*rows)
    for name in sorted(given - set(columns.names)):
        raise ValueError(f"{name} is not a column of the results")
    made = {c.name: _array(rows, c) if c.name in given else pa.nulls(len(rows), c.type) for c in columns}
    if {"samples", "inner_calls"} <= made.keys():
        lengths = [pc.fill_null(pc.list_value_length(made[name]), -1) for name in ("samples", "inner_calls")]
        _refuse(rows, "inner_calls", pc.not_equal(*lengths), "has another number of rounds than samples")
    return list(made.values())


def _array(rows: Rows, column: pa.Field) -> pa.Array:
    name, leaf, depth = column.name, column.type, 0
    while pa.types.is_list(leaf):
        leaf, depth = leaf.value_type, depth + 1
    try:
        cells = [row[name] for row in rows]
    except KeyError:
        cells = [row.get(name) for row in rows]
    made = _samples(cells) if column.type == _SAMPLES else None
    if made is None:
        made = _converted(rows, column, cells, leaf, depth)
    _check(rows, name, made, depth)
    if pa.types.is_timestamp(leaf) and None in {cell.tzinfo for cell in cells if cell is not None}:
        _find(rows, name, cells, lambda cell: cell.tzinfo is None, "has no time zone; times are in UTC")
    return made


def _samples(cells: list[Any]) -> pa.Array | None:
    """Convert lists of lists of integers in half of Arrow's time, for they are most of all values; None where not."""
    values = array("q")
    try:
        rounds = list(chain.from_iterable(filter(None, cells)))
        # At once: a float is refused here, of which Arrow would cut the fraction off.
        values.fromlist(list(chain.from_iterable(rounds)))
        lengths = [len(round_) for round_ in rounds], [len(cell) if cell else 0 for cell in cells]
    except (TypeError, OverflowError):
        return None
    rounds_end, cells_end = (np.cumsum([0, *each], dtype=np.int32) for each in lengths)
    # By way of NumPy, which takes an array as it lies in memory.
    inner = pa.ListArray.from_arrays(rounds_end, pa.array(np.asarray(values)))
    return pa.ListArray.from_arrays(cells_end, inner, mask=pa.array([cell is None for cell in cells]))


def _converted(rows: Rows, column: pa.Field, cells: list[Any], leaf: pa.DataType, depth: int) -> pa.Array:
    name, wrong = column.name, _wrong(leaf)
    if any(wrong(kind, None) for kind in _kinds(cells, depth)):
        _find(rows, name, cells, lambda cell: any(wrong(type(v), v) for v in _leaves(cell, depth)), f"is no {leaf}")
    try:
        return pa.array(cells, column.type)
    except _REFUSALS:
        _find(rows, name, cells, lambda cell: not _converts(cell, column.type), f"is no {column.type}")
        raise  # no row by itself, but all of them together


def _check(rows: Rows, name: str, made: pa.Array, depth: int) -> None:
    levels = [made]
    for _ in range(depth):
        levels.append(pc.list_flatten(levels[-1]))
        if levels[-1].null_count:
            _refuse(rows, name, pc.is_null(levels[-1]), "has a null in a list", levels[:-1])
    values, lists = levels[-1], levels[:-1]
    if pa.types.is_floating(values.type):
        _refuse(rows, name, pc.invert(pc.is_finite(values)), "is not finite; what is not known is null", lists)
    if name in _LEAST:
        _refuse(rows, name, pc.less(values, _LEAST[name]), f"is less than {_LEAST[name]}", lists)
    if name in WORDS:
        unknown = pc.and_(pc.invert(pc.is_in(values, pa.array(WORDS[name]))), pc.is_valid(values))
        _refuse(rows, name, unknown, f"is none of {', '.join(WORDS[name])}")


def _refuse(rows: Rows, name: str, wrong: pa.Array, why: str, lists: Sequence[pa.Array] = ()) -> None:
    """Raise for the first row of which something is wrong: of a value in it, or, within lists, of one below it."""
    at = pc.index(wrong, True).as_py()
    if at >= 0:
        for each in reversed(lists):
            at = pc.list_parent_indices(each)[at].as_py()
        raise _error(rows[at], name, why)


def _find(rows: Rows, name: str, cells: list[Any], wrong: Callable[[Any], bool], why: str) -> None:
    for row, cell in zip(rows, cells, strict=True):
        if cell is not None and wrong(cell):
            raise _error(row, name, why)


def _error(row: Mapping[str, Any], name: str, why: str) -> ValueError:
    value = repr(row.get(name))
    shown = value if len(value) <= 60 else f"{value[:57]}..."
    return ValueError(f"{row.get('case_id') or row.get('run_id')}: {name} {shown} {why}")


def _kinds(cells: Iterable[Any], depth: int) -> set[type]:
    """Give the types of the values in lists of a depth; none where something is no list, which Arrow will say."""
    values = cells
    try:
        for _ in range(depth):
            values = chain.from_iterable(filter(None, values))
        return set(map(type, values)) - {_NULL}
    except (TypeError, ValueError):
        return set()


def _leaves(cell: Any, depth: int) -> Iterator[Any]:
    if depth and isinstance(cell, (list, tuple)):
        for each in cell:
            yield from _leaves(each, depth - 1)
    elif cell is not None:
        yield cell


def _wrong(leaf: pa.DataType) -> Callable[[type, Any], bool]:
    """Tell what a column refuses although Arrow takes it, by type and value; without a value, what might be refused."""
    if pa.types.is_string(leaf):
        return lambda kind, _: not issubclass(kind, str)  # Arrow reads bytes as text
    if pa.types.is_timestamp(leaf):
        return lambda kind, _: not issubclass(kind, datetime)  # and numbers as times
    if pa.types.is_integer(leaf):
        # Arrow cuts fractions off.
        return lambda kind, value: kind is bool or (issubclass(kind, float) and (value is None or value % 1 != 0))
    return lambda kind, _: kind is bool and not pa.types.is_boolean(leaf)


def _converts(cell: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([cell], kind)
    except _REFUSALS:
        return False
    return True
