"""report: a page of two thousand cases must open, filter and sort at once, and be small enough to send."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from flows.report_data import gather
from flows.report_page import page as written
from flows.storage import LocalRoot
from selfcheck.browser import CHROMIUM, chromium, opened, painted
from selfcheck.dataset import Shape, batches, new_runs, write
from selfcheck.figure import Report, at_most
from selfcheck.interleaved import NotMeasuredError

_DRAWN = "window.report.drawn()"


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        shape: of the results that are reported on; 40 cases a kernel.
        opens: times that the page is opened, each time to filter and sort it.
    """

    shape: Shape = field(default_factory=lambda: Shape(runs=4, kernels=50))
    opens: int = 5


QUICK = Settings(Shape(runs=1, kernels=1, samples=5), opens=1)


def measure(settings: Settings) -> Report:
    """Write a report of generated runs, and open, filter and sort it in a browser, from disk.

    Args:
        settings: how much.

    Returns:
        The size of the page, and how long its reader waits.

    Raises:
        NotMeasuredError: there is no browser, or the page says an error.
    """
    if CHROMIUM is None:
        raise NotMeasuredError("no Chromium on PATH; install it (Debian: apt-get install chromium)")
    took: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as name:
        root = LocalRoot(Path(name, "results"))
        for run in new_runs(settings.shape.runs):
            write(root.path, run, batches(run, settings.shape))
        file = Path(name, "report.html")
        with _clock(took, "gathered"):
            data = gather(root)
        with _clock(took, "written"):
            file.write_text(written(data, root.address), encoding="utf-8")
        nbytes = file.stat().st_size
        for _ in range(settings.opens):
            _read(file, took)
    cases, middle = len(data.cases), {what: median(seconds) for what, seconds in took.items()}
    return Report(
        (
            at_most(f"page of {cases} cases of {len(data.runs)} runs", nbytes / 1e6, 5, " MB"),
            at_most("it opens, until its table answers and what is in sight is drawn", middle["opened"], 2, " s"),
            at_most("it filters by a framework, with table and figures in sight", middle["filtered"], 2, " s"),
            at_most("it sorts by a time", middle["sorted"], 2, " s"),
        ),
        (
            f"all of its figures, drawn at once as a printer has them: {middle['drawn']:.1f} s",
            f"seconds of asking the results: {middle['gathered']:.1f}; of writing the page: {middle['written']:.1f}",
        ),
    )


def _read(file: Path, took: dict[str, list[float]]) -> None:
    """Open a page in a new browser, and do with it what a reader does."""
    assert CHROMIUM is not None
    said: list[str] = []
    with chromium(CHROMIUM) as page:
        page.on("pageerror", lambda error: said.append(str(error)))
        with _clock(took, "opened"):
            opened(page, file)
        with _clock(took, "drawn"):
            page.evaluate(_DRAWN)
        page.locator(".figure").first.scroll_into_view_if_needed()
        painted(page)
        for what, act in (("filtered", _filter), ("sorted", _sort)):
            with _clock(took, what):
                act(page)
                painted(page)
    if said:
        raise NotMeasuredError(f"the page says {said[0]}")


def _filter(page: Any) -> None:
    rows = page.locator("#count").inner_text()
    page.select_option("select[name=framework]", "jax")
    page.wait_for_function("(before) => document.getElementById('count').textContent !== before", arg=rows)


def _sort(page: Any) -> None:
    page.locator("th[data-key=median] button").click()
    page.wait_for_selector("th[data-key=median][aria-sort=ascending]")


@contextmanager
def _clock(took: dict[str, list[float]], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    took.setdefault(what, []).append(time.perf_counter() - start)
