"""Keys, markers and manifests: what is written is read again, and what is none is told."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.layout import Entry, Kind, Manifest, begun, compact_key, manifest_key, marker_key, place, read_marker
from flows.results import uuid7

days = st.dates(date(2000, 1, 1), date(9999, 12, 31))
ids = st.uuids().map(str)
entries = st.builds(Entry, st.text(max_size=9), st.integers(0), st.text(max_size=9), st.integers(0))
manifests = st.builds(
    Manifest,
    st.integers(1, 999_999),
    st.datetimes(timezones=st.just(UTC)),
    st.lists(entries, max_size=2).map(tuple),
    st.lists(st.text(max_size=9), max_size=2).map(tuple),
    st.lists(ids, max_size=2).map(tuple),
)


@given(day=days, id_=ids, generation=st.integers(1, 999_999))
def test_a_key_says_what_it_was_made_of(day: date, id_: str, generation: int) -> None:
    made = {
        marker_key(day, id_): ("runs", Kind.MARKER, id_),
        manifest_key(day, generation): ("runs", Kind.MANIFEST, f"{generation:06d}"),
        compact_key("timings", day, id_): ("timings", Kind.COMPACT, id_),
        f"timings/date={day}/{id_}-{id_}.parquet": ("timings", Kind.RAW, id_),
        f"runs/date={day}/{id_}.parquet": ("runs", Kind.RAW, id_),
    }
    for key, (table, kind, wanted) in made.items():
        found = place(key)
        assert found is not None
        assert (found.table, found.day, found.kind, found.id, found.partial) == (table, day, kind, wanted, False)


@pytest.mark.parametrize("table", ["timings", "runs"])
def test_a_suspended_runs_files_are_partial(table: str) -> None:
    found = place(f"{table}/date=2026-11-03/{uuid7()}-partial.parquet")
    assert found is not None
    assert found.partial


@pytest.mark.parametrize(
    "key",
    [
        "notes.txt",
        "timings/a.parquet",
        "timings/date=2026-13-03/compact-{id}.parquet",
        "timings/date=2026-11-03/{id}.parquet",
        "timings/date=2026-11-03/_{id}.json",
        "runs/date=2026-11-03/{id}-{id}.parquet",
        "runs/date=2026-11-03/_compact-1.json",
        "runs/date=2026-11-03/deeper/{id}.parquet",
    ],
)
def test_a_key_of_another_form_has_no_place(key: str) -> None:
    assert place(key.format(id=uuid7())) is None


@given(manifest=manifests)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"7", b"\xff", b'{"files": [{"key": 1}]}', b'{"files": 3}'])
def test_what_is_no_marker_and_no_manifest_is_told(content: bytes) -> None:
    with pytest.raises(ValueError):
        Manifest.from_json(content)
    with pytest.raises(ValueError):
        read_marker(content)


def test_an_id_says_when_its_run_began_and_one_of_another_version_nothing() -> None:
    assert abs(datetime.now(UTC) - begun(str(uuid7()))).total_seconds() < 60
    assert begun("ffffffff-ffff-4fff-8fff-ffffffffffff") > datetime(9999, 1, 1, tzinfo=UTC)
