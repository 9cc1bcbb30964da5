"""Artifacts: what a flow shows on the page of its run, while it goes and when it is over.

They are for a server that people look at: a run on a server of its own makes none. What cannot be put there, because
the server is away or refuses it, is told once, and fails nothing.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows import pages, reports
from flows.closing import addresses
from flows.order import Order
from flows.progress import Reporter, time_left
from flows.results import counts
from flows.server import shared
from flows.states import counted
from flows.storage import Root, StorageError
from kernels.measurement import Measurement, Status

if TYPE_CHECKING:
    from flows.execution import Summary

PROGRESS_S = 10.0
"""Least seconds between two updates of the progress,"""

AWAY_S = 60.0
"""and after one that failed."""

TIMEOUT_S = 5.0
"""Seconds that the server has for an answer."""


class Publisher:
    """Puts artifacts on the page of the flow run in which it is made; where no one looks, it does nothing.

    Attributes:
        open: whether the flow runs on a server that others look at.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        """Prepare; nothing is sent yet.

        Args:
            note: is told, once, when something cannot be put.
        """
        context = FlowRunContext.get()
        self._flow_run = context.flow_run.id if context is not None and context.flow_run is not None else None
        self.open = self._flow_run is not None and shared()
        self._note, self._told = note, False
        self._progress: UUID | None = None

    def progress(self, key: str, percent: float, description: str) -> bool:
        """Put the progress, or move it; a server that is away is not waited for.

        Args:
            key: of lower-case letters, digits and dashes.
            percent: from 0 to 100.
            description: how far the flow is, in words.

        Returns:
            Whether it is there.
        """
        if self._progress is None:
            self._progress = self._create("progress", key, percent, description, patient=False)
            return self._progress is not None
        moved, update = self._progress, ArtifactUpdate(data=percent, description=description)
        return self._try(lambda client: client.update_artifact(moved, update), key, patient=False) is not _NOTHING

    def table(self, key: str, rows: pages.Rows, description: str) -> None:
        """Put a table, its first rows where it is very long.

        Args:
            key: of lower-case letters, digits and dashes.
            rows: column to text.
            description: what it shows, in Markdown.
        """
        if len(rows) > pages.ROWS:
            description += f" The first {pages.ROWS} of {len(rows)} rows; the Parquet files have all."
        self._create("table", key, json.dumps(rows[: pages.ROWS], allow_nan=False), description)

    def markdown(self, key: str, text: str, description: str) -> None:
        """Put a page.

        Args:
            key: of lower-case letters, digits and dashes.
            text: as ``flows.pages`` writes it.
            description: what it shows, in Markdown.
        """
        self._create("markdown", key, text, description)

    def _create(self, kind: str, key: str, data: Any, description: str, patient: bool = True) -> UUID | None:
        made = ArtifactCreate(type=kind, key=key, data=data, description=description, flow_run_id=self._flow_run)
        found = self._try(lambda client: client.create_artifact(made).id, key, patient=patient)
        return found if isinstance(found, UUID) else None

    def _try(self, put: Callable[[Any], Any], key: str, patient: bool) -> Any:
        """Put something; gives what that gave, or _NOTHING."""
        if not self.open:
            return _NOTHING
        try:
            with (
                nullcontext() if patient else temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
                get_client(httpx_settings={"timeout": TIMEOUT_S}, sync_client=True) as client,
            ):
                return put(client)
        except Exception as error:
            # Whatever it is, a page that is not there is worth no run.
            if not self._told:
                reason = " ".join(str(error).split())[:200]
                self._note(f"Prefect's server does not take the artifact {key} ({reason}); the run goes on without")
                self._told = True
            return _NOTHING


_NOTHING = object()


class ArtifactReporter:
    """Shows on the page of its flow run, beside what another reporter tells: progress, results, failures, files."""

    def __init__(self, inner: Reporter, order: Order) -> None:
        """Prepare; nothing is sent yet.

        Args:
            inner: is told everything too.
            order: of the run.
        """
        self._inner, self._order = inner, order
        self._publisher = Publisher(inner.note)
        # Runs of a deployment share their keys, and so are versions of one page.
        self._key = "-".join(["bench", *sorted({case.backend.value for case in order.plan.cases})])
        self._lock = threading.Lock()
        self._failures: list[pages.Failure] = []
        self._cases = self._turns = self._begun = self._done = 0
        self._began = self._next = time.monotonic()

    def begin(self, cases: int, turns: int) -> None:
        """Put the progress at its beginning."""
        self._inner.begin(cases, turns)
        self._cases, self._turns, self._began = cases, turns, time.monotonic()
        self._move()

    def turn(self, case_id: str, round_number: int) -> None:
        """Move the progress when it was last moved long enough ago; between turns, it takes nothing from a timing."""
        self._inner.turn(case_id, round_number)
        self._move()
        self._begun += 1

    def done(self, measurement: Measurement) -> None:
        """Keep what is shown of a case that is not ok."""
        self._inner.done(measurement)
        self._done += 1
        if measurement.status is not Status.OK:
            self._failures.append(pages.failed(measurement))

    def note(self, line: str) -> None:
        """Pass it on."""
        self._inner.note(line)

    def sent(self, files: int, all_files: int) -> None:
        """Pass it on."""
        self._inner.sent(files, all_files)

    def end(self, summary: Summary) -> None:
        """Put what is to be seen of a run that is over, or was interrupted."""
        self._inner.end(summary)
        if not self._publisher.open:
            return
        run, put = summary.run, self._publisher
        found = counted(counts(summary.measurements, run.order.filters))
        if run.complete:
            put.progress(f"{self._key}-progress", 100.0, found)
        ranked, apart = pages.results(summary.measurements)
        put.table(
            f"{self._key}-results",
            ranked,
            f"Run `{run.id}`: {found}. Of each kernel, size and dtype the fastest first.",
        )
        if apart:
            put.table(
                f"{self._key}-flagged", apart, f"Run `{run.id}`: what bears a flag or is not ok, and is not compared."
            )
        known = {failure.case_id for failure in self._failures}
        others = [pages.failed(m) for m in summary.measurements if m.status is not Status.OK and m.case.id not in known]
        if self._failures or others:
            page = pages.failures([*self._failures, *others])
            put.markdown(f"{self._key}-failures", page, f"Run `{run.id}`: what is not ok, by reason.")
        root = shlex.quote(run.order.root.address)
        page = pages.files(run.id, addresses(summary), root, summary.unsent, _report(run.order.root))
        put.markdown(f"{self._key}-files", page, f"Run `{run.id}`: its Parquet files, and the report.")

    def _move(self) -> None:
        if not self._lock.acquire(blocking=False):
            # Another worker's thread is at it.
            return
        try:
            if not self._publisher.open or time.monotonic() < self._next:
                return
            left = time_left(self._began, self._begun, self._turns)
            description = f"{self._done} of {self._cases} cases, {self._begun} of {self._turns} turns{left}"
            moved = self._publisher.progress(
                f"{self._key}-progress", 100 * self._begun / max(self._turns, 1), description
            )
            self._next = time.monotonic() + (PROGRESS_S if moved else AWAY_S)
        finally:
            self._lock.release()


def _report(root: Root) -> str | None:
    """Find the newest report; where the root cannot be listed, its page goes without."""
    try:
        return reports.newest(root)
    except StorageError:
        return None


def shown(reporter: Reporter, order: Order) -> Reporter:
    """Let a reporter's run be seen on the page of its flow run too, where people look at it.

    Args:
        reporter: of the run.
        order: of the run.

    Returns:
        The reporter itself where no one else uses the server.
    """
    return ArtifactReporter(reporter, order) if shared() else reporter
