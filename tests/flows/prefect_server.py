"""A real Prefect server on loopback, its command line, and process workers; each in a folder of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL, temporary_settings

import selfcheck.prefect_server
from tests.flows.conftest import PREFECT, ROOT, empty_database

Process = subprocess.Popen[bytes]


class PrefectServer(selfcheck.prefect_server.PrefectServer):
    """A server with the variables, the commands and the workers of a deployment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        """Choose a port, and the environment in which Prefect's command and workers find the server.

        Args:
            folder: for the database, logs, locks and results.
            variables: what else the environment of commands and workers holds.
        """
        super().__init__(folder)
        self.results = folder / "results"
        self.variables |= {
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "JITMATRIX_HOME": str(ROOT),
            "JITMATRIX_RESULTS": str(self.results),
            **variables,
        }

    def start(self, timeout_s: float = 240.0) -> None:
        """Start the server, with the database that it had, and wait until it answers.

        Args:
            timeout_s: seconds until it has to.
        """
        if not (self.folder / "prefect.db").exists():
            shutil.copy(empty_database(), self.folder)
        super().start(timeout_s)

    def spawn(self, command: list[str], name: str) -> Process:
        """Start a program beside the server, with its environment, in a process group of its own.

        Args:
            command: program and arguments.
            name: of its log in the folder.

        Returns:
            The process.
        """
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def pool(self, name: str, kind: str = "process") -> None:
        """Make a work pool as an administrator does who is in a hurry: by the server's API.

        Args:
            name: of the pool.
            kind: such as process.
        """
        with temporary_settings({PREFECT_API_URL: self.url}), get_client(sync_client=True) as client:
            client.create_work_pool(WorkPoolCreate(name=name, type=kind))

    def no_pool(self, name: str) -> None:
        """Delete a work pool.

        Args:
            name: of the pool.
        """
        with temporary_settings({PREFECT_API_URL: self.url}), get_client(sync_client=True) as client:
            client.delete_work_pool(name)

    def prefect(self, *arguments: str, **variables: str) -> str:
        """Run Prefect's command line in the checkout.

        Args:
            arguments: such as ``work-pool ls``.
            variables: of the environment, besides the server's.

        Returns:
            What it printed; a command that fails is a failed test.
        """
        done = subprocess.run(
            [*PREFECT, *arguments],
            env={**self.environment, **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def jitmatrix(self, *arguments: str, status: int = 0, **variables: str) -> str:
        """Run the project's command line in the server's folder.

        Args:
            arguments: such as ``deploy``.
            status: with which it must end.
            variables: of the environment, besides the server's; an empty one is taken out.

        Returns:
            What it printed, on both outputs.
        """
        given = {**self.environment, "PYTHONPATH": str(ROOT), **variables}
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments],
            env={name: value for name, value in given.items() if value},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def worker(self, pool: str) -> Iterator[Process]:
        """Keep a process worker at a pool.

        Args:
            pool: its name.

        Yields:
            The worker; its log is ``worker-<pool>.log`` in the folder.
        """
        worker = self.spawn([*PREFECT, "worker", "start", "--pool", pool, "--type", "process"], f"worker-{pool}")
        try:
            yield worker
        finally:
            end(worker)


@contextmanager
def running(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[PrefectServer]:
    """Run a server.

    Args:
        folder: for everything it keeps.
        variables: what else the environment of commands and workers holds.

    Yields:
        The server; it is ended with the block.
    """
    server = PrefectServer(folder, **(variables or {}))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def end(process: Process) -> None:
    """End a process as a supervisor does: ask, then kill its group.

    Args:
        process: leader of a process group.
    """
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
