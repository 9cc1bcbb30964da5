"""What a run leaves beside its rows: compiled programs by content, and what kernels printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from flows.durable import publish
from flows.keys import key_part
from flows.results import Run
from flows.store import Store
from kernels.case import Case
from kernels.measurement import Outcome


class Byproducts:
    """The by-products of a run's cases, written as each is done; a disk that takes none costs no row."""

    def __init__(self, store: Store, run: Run, note: Callable[[str], None]) -> None:
        """Begin.

        Args:
            store: in whose folder they are written.
            run: the run.
            note: is told once when they cannot be.
        """
        self._store, self._run, self._note = store, run, note
        self._told = False

    def keep(self, case: Case, outcomes: Sequence[Outcome]) -> None:
        """Write those of a case.

        Args:
            case: the case, which is done.
            outcomes: of its processes.
        """
        try:
            keep(self._store.folder, self._run, case, outcomes)
        except OSError as error:
            if not self._told:
                folder = self._store.folder
                self._note(f"programs and output are not kept: {folder} cannot be written ({error.strerror})")
                self._told = True


def keep(root: Path, run: Run, case: Case, outcomes: Sequence[Outcome]) -> None:
    """Write the program of a case, where it was asked for, and what its kernel printed.

    A program is ``hlo/<sha256>.txt.zst``, once however many runs compile it; its hash is ``program_hash`` of the rows.
    Output is ``output/date=YYYY-MM-DD/<run_id>/<case_id>.txt``, the id made safe for a path, at most a MiB a process.

    Args:
        root: the results' root.
        run: the run.
        case: the case, which is done.
        outcomes: of its processes.

    Raises:
        OSError: it cannot be written.
    """
    for outcome in outcomes:
        if outcome.text is not None:
            path = root / "hlo" / f"{outcome.facts['program_hash']}.txt.zst"
            if not path.exists():
                publish(path, pa.compress(outcome.text.encode(), codec="zstd", asbytes=True))
    printed = [f"--- {outcome.role.value}\n{outcome.output}\n" for outcome in outcomes if outcome.output]
    if printed:
        folder = root / "output" / f"date={run.started_at:%Y-%m-%d}" / run.id
        publish(folder / f"{key_part(case.id)}.txt", "".join(printed).encode())
