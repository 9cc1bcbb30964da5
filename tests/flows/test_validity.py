"""Rows are what the schema says, or an error names case and column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import schema
from flows.parquet import packing
from flows.validity import WORDS, arrays

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TIMES = st.datetimes(
    min_value=datetime(1970, 1, 2),
    max_value=datetime(2200, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=9))]),
)
DTYPES = ("float32", "bfloat16", "float8_e4m3fn", "int4", "complex64", "bool")


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_timestamp(kind):
        return TIMES
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000)
    if pa.types.is_integer(kind):
        return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    return st.booleans() if pa.types.is_boolean(kind) else TEXT


@st.composite
def valid(draw: st.DrawFn) -> dict[str, Any]:
    row = {column.name: draw(st.none() | values(column.type)) for column in schema.TIMINGS}
    row |= {name: draw(st.none() | st.sampled_from(words)) for name, words in WORDS.items()}
    rounds = draw(st.none() | st.lists(st.lists(st.integers(0, 10**12), max_size=4), max_size=3))
    inner = None if rounds is None else [draw(st.integers(1, 10**6)) for _ in rounds]
    row |= {"case_id": "dense-jax-jit-M-float32-cpu", "dtype": draw(st.sampled_from(DTYPES))}
    return row | {"samples": rounds, "inner_calls": inner}


FAULTS: list[tuple[str, Any, str]] = [
    ("status", "fine", "is none of ok, wrong"),
    ("phase", "warm", "is none of startup, transfer"),
    ("backend", "CPU", "is none of cpu, gpu, tpu"),
    ("median_ns", float("nan"), "is not finite"),
    ("spread", float("inf"), "is not finite"),
    ("low_ns", -float("inf"), "is not finite"),
    ("high_ns", np.float64("nan"), "is not finite"),
    ("samples", [[1, float("nan")]], "is no int64"),
    ("samples", [[1], [float("inf")]], "is no int64"),
    ("samples", [[1, 2.5]], "is no int64"),
    ("samples", [[1, -1]], "is less than 0"),
    ("samples", [[1, None]], "has a null in a list"),
    ("samples", [None], "has a null in a list"),
    ("samples", [1], "is no list"),
    ("samples", [[2**63]], "is no list"),
    ("samples", [[1], [2], [3], [4], [5]], "has another number of rounds"),
    ("inner_calls", [0], "is less than 1"),
    ("inner_calls", [1, 1, 1, 1, 1], "has another number of rounds"),
    ("event_ns", [1.5], "is no int64"),
    ("measured_at", datetime(2026, 11, 3), "has no time zone"),
    ("measured_at", 5, "is no timestamp"),
    ("dtype", np.dtype("float32"), "is no string"),
    ("dtype", np.float32, "is no string"),
    ("dtype", b"float32", "is no string"),
    ("dtype", 3, "is no string"),
    ("reason", "\ud800", "is no string"),
    ("flags", [b"noisy"], "is no string"),
    ("derivative", 300, "is no int8"),
    ("derivative", True, "is no int8"),
    ("traces", 1.5, "is no int64"),
    ("median_ns", "fast", "is no double"),
    ("cold", 1, "is no bool"),
]


@given(rows=st.lists(valid(), max_size=3))
@settings(max_examples=60, deadline=None)
def test_valid_rows_pass_and_are_what_they_were(rows: list[dict[str, Any]]) -> None:
    made = pa.Table.from_arrays(arrays(rows, schema.TIMINGS), schema=schema.TIMINGS)
    assert made.equals(pa.Table.from_pylist(rows, schema=schema.TIMINGS))


@given(
    rows=st.lists(valid(), min_size=1, max_size=3),
    fault=st.sampled_from(FAULTS),
    where=st.integers(0, 10),
)
@settings(max_examples=150, deadline=None)
def test_each_fault_is_found_wherever_it_is(
    rows: list[dict[str, Any]], fault: tuple[str, Any, str], where: int
) -> None:
    name, value, _ = fault
    rows[where % len(rows)] |= {name: value, "case_id": "the-faulty-one"}
    with pytest.raises(ValueError, match=r"^the-faulty-one: (samples|inner_calls|" + name + ")"):
        arrays(rows, schema.TIMINGS)


@pytest.mark.parametrize(("name", "value", "why"), FAULTS)
def test_a_fault_is_one_line_with_case_column_and_reason(name: str, value: object, why: str) -> None:
    other = {"samples": [[1]], "inner_calls": [1]} if name in ("samples", "inner_calls") else {}
    with pytest.raises(ValueError, match=f"^the-case: .*{why}") as error:
        arrays([{"case_id": "good"}, {"case_id": "the-case", **other, name: value}], schema.TIMINGS)
    assert name in str(error.value) or "rounds" in why
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_fault_of_a_run_names_the_run() -> None:
    with pytest.raises(ValueError, match=r"^run-7: started_at .* has no time zone"):
        arrays([{"run_id": "run-7", "started_at": datetime(2026, 11, 3)}], schema.RUNS)


def test_a_column_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="speed is not a column"):
        arrays([{"case_id": "a"}, {"speed": 1.0}], schema.TIMINGS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_is_stored_by_its_name(dtype: str, tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    rows = [{"case_id": "a", "dtype": dtype, "output_dtype": dtype, "samples": [[1]], "inner_calls": [1]}]
    made = pa.Table.from_arrays(arrays(rows, schema.TIMINGS), schema=schema.TIMINGS)
    pq.write_table(made, tmp_path / "file.parquet", **packing(schema.TIMINGS))
    assert pq.read_table(tmp_path / "file.parquet").select(["dtype", "output_dtype"]).to_pylist() == [
        {"dtype": dtype, "output_dtype": dtype}
    ]
