"""Kernels of a user's own, as the process that plans a run sees them: checked and described elsewhere, never loaded."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kernels.discovery import describe, suite
from kernels.ending import ending
from kernels.errors import UsageError
from kernels.interpreter import command
from kernels.loading import digest
from kernels.machine import affinity
from kernels.reference import Reference, shown
from kernels.spec import Kernel, Tolerance, Work
from kernels.variables import environment

DEADLINE_S = 120.0
"""Of loading and checking a source: on a busy machine a framework at its top takes most of a minute."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a reference names.

    Attributes:
        source: as in ``Case.source``.
        file: where it stands.
        sha256: of the file's bytes.
        kernels: kernel name to its description, a kernel that computes nothing.
        places: kernel name to the file and line that define it.
    """

    source: str
    file: Path
    sha256: str
    kernels: Mapping[str, Kernel]
    places: Mapping[str, str]


_known: dict[Reference, Own] = {}


def own(reference: Reference, deadline_s: float = DEADLINE_S) -> Own:
    """Have a source loaded and checked in a process of its own, once for as long as its file stays as it is.

    Args:
        reference: what the user named.
        deadline_s: seconds until the process is ended.

    Returns:
        What it names.

    Raises:
        UsageError: it does not load, breaks a rule, or takes a name of the suite's; one line with file and line.
    """
    found = _known.get(reference)
    if found is None or digest(found.file) != found.sha256:
        told = _told(reference, deadline_s)
        kernels = {value["name"]: _description(value) for value in told["kernels"]}
        places = {value["name"]: value["place"] for value in told["kernels"]}
        for name, place in places.items():
            if name in suite():
                raise UsageError(f"{place}: a kernel of the suite is named {name} too; rename yours")
        found = _known[reference] = Own(reference.source, Path(told["file"]), told["sha256"], kernels, places)
        describe(reference.source, kernels)
    return found


def _told(reference: Reference, deadline_s: float) -> Mapping[str, Any]:
    """Run the check; files and no pipes, which a process that it left behind could hold open."""
    what = [reference.source, reference.name] if reference.name else [reference.source]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command(["-m", "kernels.validation", *what]),
            env=environment(len(affinity())),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        late = False
        try:
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            late = True
            # The handler of faults tells where it stands.
            os.kill(process.pid, signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        errors.seek(0)
        lines = [json.loads(line) for line in output.read().decode().splitlines()]
        printed = errors.read().decode("utf-8", errors="replace")
    last = lines[-1] if lines else {"stage": "it was loaded"}
    if "error" in last:
        raise UsageError(last["error"])
    if "stage" not in last:
        return dict(last)
    end = f"no end after {deadline_s:g} s" if late else ending(process.returncode)
    where = _where(reference, printed)
    raise UsageError(f"{where}: {end} while {last['stage']}; keep long or risky work out of it")


def _where(reference: Reference, printed: str) -> str:
    """Name the source, with the innermost of its lines that the handler of faults printed."""
    if "/" not in reference.source:
        return f"--kernel {reference.text}"
    name = shown(Path(reference.source))
    found = re.search(rf'File "{re.escape(reference.source)}", line (\d+)', printed)
    return f"{name}:{found.group(1)}" if found else name


def _description(value: Mapping[str, Any]) -> Kernel:
    counted = {(itemsize, _key(dims)): Work(operations, nbytes) for itemsize, dims, operations, nbytes in value["work"]}
    return Kernel(
        name=value["name"],
        summary=value["summary"],
        sizes=value["sizes"],
        dtypes=tuple(value["dtypes"]),
        inputs=_elsewhere,
        work=lambda itemsize, **dims: counted[itemsize, _key(dims)],
        tolerance={dtype: Tolerance(*parts) for dtype, parts in value["tolerance"].items()},
        array=_elsewhere if value["array"] else None,
        implementations=dict.fromkeys(value["implementations"], _builder),
        reference=_elsewhere if value["reference"] else None,
        donates=tuple(value["donates"]),
        differentiable=tuple(value["differentiable"]),
        linear=value["linear"],
    )


def _key(dims: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(dims.items()))


def _elsewhere(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError("a description computes nothing; the case's own process loads the kernel")


def _builder() -> Callable[..., Any]:
    return _elsewhere
