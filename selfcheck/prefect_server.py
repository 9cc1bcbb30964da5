"""A real Prefect server with a home of its own, on 127.0.0.1 alone, ended with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from selfcheck.seaweed import die_with_parent, free_ports


class PrefectServer:
    """One server with a folder and a port of its own; it keeps both when it is killed and started again.

    Attributes:
        folder: for its database and its log.
        variables: of the environment in which Prefect's client, command and worker find the server.
    """

    def __init__(self, folder: Path) -> None:
        """Prepare it; nothing is started yet.

        Args:
            folder: for its database and its log.
        """
        self.folder = folder
        self._port = free_ports(1)[0]
        self.variables = {
            "PREFECT_HOME": str(folder),
            "PREFECT_API_URL": self.url,
            # What a flow says is read, whatever the user has set.
            "PREFECT_LOGGING_LEVEL": "INFO",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of its API."""
        return f"http://127.0.0.1:{self._port}/api"

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the variables."""
        return {**os.environ, **self.variables}

    def start(self, timeout_s: float = 120.0) -> None:
        """Start it, and wait until it answers.

        Args:
            timeout_s: seconds until it has to.

        Raises:
            RuntimeError: it ended, or did not answer in time; the end of its log says why.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        log_path = self.folder / "server.log"
        command = [sys.executable, "-m", "prefect", "server", "start"]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self._port), "--no-ui"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - a system call of one line, which takes no lock
            )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        end = time.monotonic() + timeout_s
        while True:
            try:
                with opener.open(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > end or self._process.poll() is not None:
                    self.kill()
                    raise RuntimeError(log_path.read_text(errors="replace")[-2000:]) from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End it as an administrator would: SIGTERM, and what is in the database is whole."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it, and what it has started, as a power cut would: SIGKILL."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
