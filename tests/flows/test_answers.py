"""What a query found, written: units for people, everything for programs, nothing that JSON does not have."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import answers
from kernels.errors import UsageError
from tests.flows.conftest import ROOT
from tests.flows.stored import write_run

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\0"))


def written(name: str, table: pa.Table) -> str:
    out = io.StringIO()
    answers.TEXT[name](table, out)
    return out.getvalue()


def shown(**columns: list[Any]) -> list[str]:
    return written("table", pa.table(columns)).splitlines()


def test_people_see_times_in_their_units_and_three_digits() -> None:
    lines = shown(case=["a", "bcd"], median_ns=[1234567.0, None], ratio=[2.0 / 3, -123.4], flags=[["noisy"], []])
    assert lines == [
        "case  median_ns  ratio  flags",
        'a       1.23 ms  0.667  ["noisy"]',
        "bcd               -123  []",
    ]


def test_a_cell_stays_in_its_line() -> None:
    assert shown(reason=["two\nlines"])[1:] == ["two lines"]


def test_a_long_table_says_how_long_it_is() -> None:
    lines = shown(a=list(range(answers.ROWS + 1)))
    assert len(lines) == answers.ROWS + 2
    assert lines[-1] == f"the first {answers.ROWS} of {answers.ROWS + 1} rows; --format csv has all"


def test_a_plan_is_written_as_it_is_drawn() -> None:
    assert shown(explain_key=["plan"], explain_value=["╭─╮\n╰─╯"]) == ["╭─╮", "╰─╯"]


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(),
            "s": st.none() | TEXT,
            "b": st.none() | st.booleans(),
            "l": st.none() | st.lists(st.none() | st.lists(st.integers(0, 99), max_size=3), max_size=3),
        }),
        max_size=5,
    )
)  # fmt: skip
def test_programs_get_every_value_back(rows: list[dict[str, Any]]) -> None:
    kinds = {"n": pa.int64(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_(), "l": pa.list_(pa.list_(pa.int64()))}
    table = pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
    wanted = [{**row, "x": row["x"] if row["x"] is not None and math.isfinite(row["x"]) else None} for row in rows]
    assert json.loads(written("json", table)) == wanted
    found = list(csv.DictReader(io.StringIO(written("csv", table), newline="")))
    assert [row["s"] for row in found] == [row["s"] or "" for row in wanted]
    assert [float(row["x"]) if row["x"] else None for row in found] == [row["x"] for row in wanted]
    assert [json.loads(row["l"]) if row["l"] else None for row in found] == [row["l"] for row in wanted]
    out = io.BytesIO()
    answers.parquet(table, out)
    assert pq.read_table(io.BytesIO(out.getvalue())).schema.equals(table.schema)


def test_times_are_iso_8601_in_utc() -> None:
    moment = datetime(2026, 11, 3, 12, tzinfo=UTC)
    table = pa.table({"at": pa.array([moment], pa.timestamp("us", tz="UTC"))})
    assert json.loads(written("json", table)) == [{"at": "2026-11-03T12:00:00+00:00"}]
    assert written("table", table).splitlines()[1] == "2026-11-03 12:00:00"


def test_a_type_that_parquet_does_not_have_is_refused() -> None:
    table = pa.table({"i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(UsageError, match="--format parquet"):
        answers.parquet(table, io.BytesIO())


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(tmp_path: Path) -> None:
    write_run(tmp_path / "results")
    query = "select range as a from range(300000)"
    command = f'{sys.executable} -m flows.cli query "{query}" --results results --format csv | head -n 1'
    done = subprocess.run(
        ["/bin/sh", "-c", f"cd {tmp_path}; PYTHONPATH={ROOT} {command}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("a\n", "")
