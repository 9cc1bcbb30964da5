"""What all tests share: locks of devices that are no other program's, and Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

# A suite that a script started in the background ignores Ctrl-C, and so would every run that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' runs from waiting for a benchmark or another suite on this machine, and those for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JITMATRIX_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield
