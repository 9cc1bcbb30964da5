"""The page of the schema says what the schema says, and is written anew when that changes."""

from __future__ import annotations

from pathlib import Path

from flows import schema
from flows.layout import place
from flows.schema_page import page

PAGE = Path(__file__).resolve().parents[2] / "docs/schema.md"


def test_the_page_in_docs_is_that_of_the_schema() -> None:
    assert PAGE.read_text() == page(), "docs/schema.md is stale: make docs"


def test_every_column_stands_there_with_its_type_and_meaning() -> None:
    text = page()
    for columns in (schema.TIMINGS, schema.RUNS):
        for column in columns:
            (line, *_) = [line for line in text.splitlines() if line.startswith(f"| `{column.name}` |")]
            assert column.metadata[b"description"].decode() in text
            assert line.count(" | ") == 2
    assert "| `samples` | list<list<int64>> |" in text
    assert "| `started_at` | timestamp[us, tz=UTC] |" in text


def test_the_keys_that_it_shows_are_those_of_the_layout() -> None:
    shown = [line.split()[0].removeprefix("<root>/") for line in page().splitlines() if line.startswith("<root>/")]
    ids = {"<run_id>": "01a2328a-be84-7ed3-971e-de7f272f105c", "<uuid7>": "01a2328a-be84-7ed3-971e-de7f272f105d"}
    for key in shown:
        for word, value in {**ids, "YYYY-MM-DD": "2026-11-03", "<generation>": "000001"}.items():
            key = key.replace(word, value)  # noqa: PLW2901
        assert (place(key) is not None) == key.startswith(("timings/", "runs/")), key
