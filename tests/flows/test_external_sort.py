"""Sorting in parts: the same rows in order, however they were cut."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import external_sort
from flows.external_sort import in_order

names = st.none() | st.text("abé", max_size=3)
tables = st.lists(st.lists(st.tuples(names, names, st.integers(0, 9)), max_size=30), max_size=6)


@given(given_=tables, part=st.integers(1, 2000), batch=st.integers(1, 500))
@settings(max_examples=40, deadline=None)
def test_rows_come_in_order_and_each_once(given_: list[list[tuple[str, str, int]]], part: int, batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(external_sort, "PART_NBYTES", part)
        patch.setattr(external_sort, "_BATCH_NBYTES", batch)
        found = [row for table in in_order(map(_table, given_), ["a", "b"], Path(folder)) for row in _rows(table)]
        assert list(Path(folder).iterdir()) == []
    keys = [(a or "", b or "") for a, b, _ in found]
    assert keys == sorted(keys, key=lambda key: [part.encode() for part in key])
    assert sorted(map(repr, found)) == sorted(repr(row) for rows in given_ for row in rows)


def _table(rows: list[tuple[str, str, int]]) -> pa.Table:
    columns = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.list_(pa.int64()))])
    return pa.Table.from_pylist([{"a": a, "b": b, "c": [c] * c} for a, b, c in rows], schema=columns)


def _rows(table: pa.Table) -> list[tuple[str, str, int]]:
    return [(row["a"], row["b"], len(row["c"])) for row in table.to_pylist()]
