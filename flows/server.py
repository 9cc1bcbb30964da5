"""A Prefect server of this run's own, where the user has none: started with the command, gone with it.

Prefect would start one by itself, in the terminal's process group: Ctrl-C would end it before the flow could say that
it was interrupted. This one is in a session of its own, listens before it is ready, and starts while this process is
still importing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flows.redaction import without_secrets
from kernels.errors import UsageError
from kernels.interpreter import OWN_PATH, PR_SET_PDEATHSIG
from kernels.variables import ROOT

if TYPE_CHECKING:
    from fastapi import FastAPI

SETTINGS = {
    # One run on this machine is all it answers: what it would do besides takes processor time from cases.
    **{
        f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
        for service in ("CANCELLATION_CLEANUP", "FOREMAN", "LATE_RUNS", "PAUSE_EXPIRATIONS", "SCHEDULER", "TRIGGERS")
    },
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
"""Settings of the server; what the user has set wins."""

_PARENT = "JITMATRIX_SERVER_OF"
"""Variable in which the server finds the process that it is to end with."""

START_S = 120.0

_OWN: set[str] = set()
"""Addresses of servers that this process has started for itself."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses without a proxy: what listens on loopback is no proxy's to reach."""


def create() -> FastAPI:
    """Make the application, in the server's process.

    Returns:
        Prefect's own application, without its user interface.
    """
    if sys.platform == "linux":
        # However the command ends, the server ends with it, at once and while it imports too. A command that is not
        # killed ends it itself, and more gently.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(os.environ[_PARENT]):
            # The command ended before that: no signal comes.
            sys.exit(1)
    from prefect.server.api.server import create_app

    return create_app(ephemeral=True)


class Server:
    """The server's process, from its start until this process exits."""

    def __init__(self) -> None:
        """Start it; it listens at once, and answers when it is ready."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(64)
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
            command = [
                sys.executable,
                OWN_PATH,
                "-m",
                "uvicorn",
                "--factory",
                "flows.server:create",
                "--log-level",
                "critical",
            ]
            # This project's application, whatever the user's folder holds.
            command += ["--app-dir", str(ROOT)]
            self._process = subprocess.Popen(
                [*command, "--fd", str(listening.fileno())],
                env={**SETTINGS, **os.environ, _PARENT: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )
        # Registered before Prefect registers its own: what Prefect still has to send at exit is sent first.
        atexit.register(self.stop)

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            UsageError: it does not.
        """
        try:
            with _DIRECT.open(f"{self.url}/health", timeout=START_S):
                return
        except (urllib.error.URLError, OSError) as error:
            self.stop()
            message = f"Prefect's server did not start on this machine ({error}); try `prefect server start` to see why"
            raise UsageError(f"{message}, or set PREFECT_API_URL to one that runs") from error

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def ensured() -> Iterator[Callable[[], None]]:
    """Let Prefect use a server of this run's own for the block, where the user's settings name none.

    Yields:
        A function that waits until the server answers; until then there is time for imports.
    """
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    if get_current_settings().api.url:
        yield reach
        return
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1")))
    server = Server()
    _OWN.add(server.url)
    with temporary_settings({PREFECT_API_URL: server.url}):
        yield server.wait


def reach() -> None:
    """See that the Prefect server that the settings name answers.

    Raises:
        UsageError: it does not.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, get_current_settings, temporary_settings

    url = get_current_settings().api.url
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
            error = client.api_healthcheck()
    except (RuntimeError, OSError) as raised:
        error = raised
    if error is not None:
        cause = error.__cause__ or error
        raise UsageError(
            f"PREFECT_API_URL {without_secrets(str(url))}: no Prefect server answers there ({cause}); start it, set the"
            " variable to one that runs, or unset it (prefect config unset PREFECT_API_URL too) to measure without one"
        )


def shared() -> bool:
    """Tell whether the Prefect server in use is one that others use too: a person's, a team's, Prefect Cloud.

    Returns:
        False for a server that ends with this process, and where the settings name none.
    """
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    return bool(url) and url not in _OWN
