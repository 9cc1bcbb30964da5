"""A browser without a window, to look at a page as its readers do: the Chromium that is installed, offline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Path of the browser; None where there is none on PATH."""


@contextmanager
def chromium(path: str) -> Iterator[Any]:
    """Run the browser.

    Args:
        path: of its program.

    Yields:
        An empty page of a context that has no network.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser.new_context(offline=True).new_page()
        finally:
            browser.close()


def opened(page: Any, file: Path) -> None:
    """Open a report from disk, until its table answers and what is in sight is drawn.

    Args:
        page: of the browser.
        file: the report.
    """
    page.goto(file.as_uri(), wait_until="commit")
    page.wait_for_function("window.report")
    painted(page)


def painted(page: Any) -> None:
    """Wait until what has changed on a report is on the screen, the figures that are in sight with it.

    Args:
        page: of the browser.
    """
    page.evaluate("window.report.settled()")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
