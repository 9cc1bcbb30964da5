"""Rows of what no machine took: a run for a sweep's share that no worker came for, or of which every cell is skipped.

Whoever asks the results finds every cell of a sweep in them. The run has the id that the sweep had chosen for the
share: a worker that is sent it later, against all odds, finds it stored, and measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flows.order import Order
from flows.results import Run
from flows.resume import Fate, chosen
from flows.spool import spool
from flows.storage import LocalRoot
from flows.store import Store
from flows.upload import upload
from kernels.case import Skip
from kernels.measurement import Measurement, Status


def record(share: Order, run_id: str, reason: str, *, failed: bool, note: Callable[[str], None]) -> None:
    """Store a row for every cell of a share, once: of a run that is stored already, nothing is written.

    Args:
        share: what was to be measured; its cases are unavailable, its skips skipped.
        run_id: id of the run that was to measure it.
        reason: why none did, in a line.
        failed: whether a case counts as failed, as one of a backend does that was asked for by name.
        note: is told when the results wait in the spool.

    Raises:
        UsageError: there is no such root.
        StorageError: the root cannot be read, for a reason that will not go away by itself.
        OSError: the rows cannot be written.
    """
    if chosen(run_id, share.root.address) is not Fate.UNKNOWN:
        return
    run = Run(share, None, run_id, complete=True, taken=False)
    own = spool(share.root)
    store = Store(own.folder, run, None, note)
    cases = [Measurement.of_skip(Skip(case, reason)) for case in share.plan.cases]
    found = [replace(each, status=Status.UNAVAILABLE) for each in cases]
    found += [Measurement.of_skip(skip) for skip in share.plan.skips]
    for measurement in found:
        store.take(measurement)
    # Whether the backend was asked for by name, the sweep knows; the share's own filters always name it.
    term = Status.FAILED if failed else Status.SKIPPED
    store.finish(replace(each, status=term) if each.status is Status.UNAVAILABLE else each for each in found)
    if not isinstance(share.root, LocalRoot):
        sent = upload(own, share.root)
        if not sent.complete:
            note(f"failed to upload: {sent}; the files are in {own.folder}, jitmatrix upload sends them")
