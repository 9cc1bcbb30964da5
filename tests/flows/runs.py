"""Runs as a spool holds them, of small files: what storage is tested with does not look into them."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from flows.durable import publish

DAY = "date=2026-12-01"


def write_run(folder: Path, name: str, timings: int = 2, nbytes: int = 2000) -> dict[str, bytes]:
    """Write a run with its marker last, as a flow does.

    Args:
        folder: the spool's.
        name: the run's id.
        timings: number of its files of timings.
        nbytes: size of each of them.

    Returns:
        Key to content of all that was written.
    """
    dice = random.Random(name)
    keys = [*(f"timings/{DAY}/{name}-{number}.parquet" for number in range(timings)), f"runs/{DAY}/{name}.parquet"]
    files = {key: dice.randbytes(nbytes) for key in keys}
    for key, content in files.items():
        publish(folder / key, content)
    named = [{"key": key, "sha256": hashlib.sha256(content).hexdigest()} for key, content in files.items()]
    marker = f"runs/{DAY}/_{name}.json"
    files[marker] = json.dumps({"run_id": name, "files": named}).encode()
    publish(folder / marker, files[marker])
    return files


def below(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Give the files as they are to be stored below a prefix."""
    return {f"{prefix}/{key}": content for key, content in files.items()}
