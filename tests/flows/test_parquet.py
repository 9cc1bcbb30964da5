"""Files of results: row groups, earlier schemas, and sums that tell any other rows from the same."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import parquet
from flows.parquet import Checksum

COLUMNS = pa.schema([("name", pa.string()), ("number", pa.int64()), ("samples", pa.list_(pa.list_(pa.int64())))])

samples = st.none() | st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3)
rows = st.lists(
    st.fixed_dictionaries(
        {"name": st.none() | st.text(max_size=3), "number": st.none() | st.integers(0, 3), "samples": samples}
    ),
    max_size=12,
)


@given(given_=rows, seed=st.integers())
@settings(max_examples=30, deadline=None)
def test_a_sum_is_that_of_the_rows_in_any_order_and_in_any_pieces(given_: list[dict[str, object]], seed: int) -> None:
    other = random.Random(seed).sample(given_, len(given_))
    assert _sum([given_]) == _sum([[row] for row in other])


@given(given_=rows, new=rows.filter(bool))
@settings(max_examples=30, deadline=None)
def test_a_sum_is_another_when_a_row_is_lost_doubled_or_changed(
    given_: list[dict[str, object]], new: list[dict[str, object]]
) -> None:
    assert _sum([given_, new]) != _sum([given_])
    assert _sum([given_, [new[0]]]) != _sum([given_, [new[0] | {"number": 4}]])
    assert _sum([[new[0] | {"samples": None}]]) != _sum([[new[0] | {"samples": []}]])


def test_row_groups_are_bounded_by_rows_and_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"name": "a", "number": 1, "samples": [[1, 2, 3]]}
    table = _table([row] * 10)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 25)
    assert parquet.write(tmp_path / "rows", [table] * 6, COLUMNS) == 60
    assert _groups(tmp_path / "rows") == [20, 20, 20]
    monkeypatch.setattr(parquet, "GROUP_NBYTES", table.nbytes)
    parquet.write(tmp_path / "bytes", [table] * 3, COLUMNS)
    assert _groups(tmp_path / "bytes") == [10, 10, 10]


def test_columns_that_a_file_lacks_are_null_and_those_not_known_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pq.write_table(pa.table({"number": pa.array([1, 2], pa.int32())}), path)
    (found,) = parquet.read(path, COLUMNS)
    assert found.schema.equals(COLUMNS)
    assert found["number"].to_pylist() == [1, 2]
    assert found["samples"].null_count == 2
    pq.write_table(pa.table({"number": [1], "more": [1]}), path)
    with pytest.raises(ValueError, match="does not know: more"):
        list(parquet.read(path, COLUMNS))
    path.write_bytes(b"no Parquet")
    with pytest.raises(ValueError, match="Parquet"):
        list(parquet.read(path, COLUMNS))


def test_wide_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    wide = {"name": "a", "number": 1, "samples": [random.Random(0).choices(range(1 << 40), k=50_000)]}
    parquet.write(tmp_path / "file", [_table([wide] * 40)], COLUMNS)
    assert max(table.nbytes for table in parquet.read(tmp_path / "file", COLUMNS)) < 4 << 20


def _table(given_: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(given_, schema=COLUMNS)


def _sum(pieces: list[list[dict[str, object]]]) -> Checksum:
    found = Checksum(COLUMNS)
    for piece in pieces:
        found.add(_table(piece))
    return found


def _groups(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
