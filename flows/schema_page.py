"""The schema as a page: every column with its type and meaning, taken from the schema itself.

``python -m flows.schema_page`` prints it; ``make docs`` writes it to docs/schema.md.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from flows import schema
from flows.validity import WORDS

_HEAD = f"""# The schema of the results

Written by `make docs` from `flows/schema.py`; a test fails when it is stale. Schema version {schema.VERSION}.

There are three tables: `timings` has a row per case and phase, `runs` a row per run, `plans` a row per cell that a
sweep had planned. Every column may be null, and what is not known is null: never NaN, never zero. Columns are only
ever added; in a file of an older version the newer ones are missing, so read with `union_by_name` (DuckDB) or a schema
(Arrow, pandas).

Units end names: `_ns` nanoseconds, `nbytes` bytes; counts and shares have none. Times of day are UTC, to the
microsecond. Medians and minima are per call; `samples` are totals, over as many calls as `inner_calls` says for their
round. Text with structure is JSON. Types are Arrow's; a dtype is text, so that bfloat16, float8_e4m3fn and int4 are
stored like any other. Rows are checked before they are written: a value that its column cannot hold ends in an error
that names case and column.
"""

_LAYOUT = f"""
## Files

```text
<root>/timings/date=YYYY-MM-DD/<run_id>-<uuid7>.parquet       rows of one run, a batch of cases
<root>/timings/date=YYYY-MM-DD/<run_id>-partial.parquet       what was cut short in a run that was interrupted
<root>/timings/date=YYYY-MM-DD/compact-<uuid7>.parquet        rows of a day's runs, after a compaction
<root>/runs/date=YYYY-MM-DD/<run_id>.parquet                  the run's row
<root>/runs/date=YYYY-MM-DD/<run_id>-partial.parquet          the row of a run that was interrupted
<root>/runs/date=YYYY-MM-DD/compact-<uuid7>.parquet           rows of a day's runs, after a compaction
<root>/runs/date=YYYY-MM-DD/_<run_id>.json                    the run's marker
<root>/runs/date=YYYY-MM-DD/_compact-<generation>.json        the manifest of a compaction
<root>/plans/<sha256>.parquet                                 the plan of a sweep, by its content
<root>/reports/date=YYYY-MM-DD/<uuid7>.html                   a report, of the day on which it was written
<root>/hlo/<sha256>.txt.zst                                   a compiled program, by its content
<root>/output/date=YYYY-MM-DD/<run_id>/<case_id>.txt          what a kernel printed
```

**Keys.** `<root>` is a folder or `s3://bucket/prefix`; the keys below it are the same. The day is that on which the
run began, in UTC. No name that a user chose stands in a key but a case's id below `output/`, made safe and, where
that changed it, with a hash; the true names are in the columns. Readers of Parquet folders pass over names that begin
with `_`.

**Packing.** Parquet with zstd; samples are delta-packed integers, text has dictionaries. A raw file has one row
group, sorted by phase; a compact file has row groups of at most 100 000 rows, sorted by kernel, framework, mode, size,
dtype, phase and run.

**Footer.** Each Parquet file says in its key-value metadata `schema_version` (now {schema.VERSION}), and raw files
`run_id` and `commit`, jitmatrix's own, besides. Each column carries its `description`.

**Markers.** `_<run_id>.json` is written last and says that a run is whole: `run_id`, `schema_version`, `planned` (its
cells), and `files`, each with `key`, `nbytes`, `sha256` and `rows`. A file that its run's marker does not list does
not count; a run without a marker is read as far as it came, and is shown as incomplete.

**Manifests of compactions.** `_compact-<generation>.json` names the compact `files` of a day as a marker does, the
keys that they replace (`replaces`), the `runs` that they hold whole, its `generation` and `compacted_at`. Of a day's
manifests the newest counts. From the moment it is stored the compact files are read, and what they replace is not,
though it stays for a while: whoever reads without `jitmatrix query` leaves the keys in `replaces` out
([analysis.md](analysis.md) shows how).
"""


def page() -> str:
    """Write the page.

    Returns:
        Markdown.
    """
    words = "".join(f"\n- `{name}`: {', '.join(values)}" for name, values in WORDS.items())
    tables = (_table("timings", schema.TIMINGS), _table("runs", schema.RUNS), _table("plans", schema.PLANS))
    return f"{_HEAD}{''.join(tables)}\n## Words\n\nThese columns hold no other words:\n{words}\n{_LAYOUT}"


def _table(name: str, columns: pa.Schema) -> str:
    lines = [f"\n## `{name}`\n", "| column | type | meaning |", "|---|---|---|"]
    for column in columns:
        text = column.metadata[b"description"].decode().replace("|", "\\|")
        lines.append(f"| `{column.name}` | {_type(column.type)} | {text} |")
    return "\n".join(lines) + "\n"


def _type(kind: pa.DataType) -> str:
    """Name a type as Arrow does, without the name that it gives the values of lists."""
    return f"list<{_type(kind.value_type)}>" if pa.types.is_list(kind) else str(kind)


if __name__ == "__main__":
    sys.stdout.write(page())
