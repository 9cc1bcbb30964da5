"""What a run leaves beside its rows: compiled programs by content, and what kernels printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from flows.durable import publish
from flows.keys import key_part
from flows.results import Run
from kernels.case import Case
from kernels.measurement import Outcome


def keep(root: Path, run: Run, outcomes: Mapping[Case, Sequence[Outcome]]) -> None:
    """Write the programs that were asked for, and the output of every kernel that printed.

    A program is ``hlo/<sha256>.txt.zst``, once however many runs compile it; its hash is ``program_hash`` of the rows.
    Output is ``output/date=YYYY-MM-DD/<run_id>/<case_id>.txt``, the id made safe for a path, at most a MiB a process.

    Args:
        root: the results' root.
        run: the run.
        outcomes: of every case's processes.
    """
    for case, processes in outcomes.items():
        for outcome in processes:
            if outcome.text is not None:
                path = root / "hlo" / f"{outcome.facts['program_hash']}.txt.zst"
                if not path.exists():
                    publish(path, pa.compress(outcome.text.encode(), codec="zstd", asbytes=True))
        printed = [f"--- {outcome.role.value}\n{outcome.output}\n" for outcome in processes if outcome.output]
        if printed:
            folder = root / "output" / f"date={run.started_at:%Y-%m-%d}" / run.id
            publish(folder / f"{key_part(case.id)}.txt", "".join(printed).encode())
