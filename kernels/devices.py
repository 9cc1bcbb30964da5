"""Devices that cannot be used: why, in one line, and who holds them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
from pathlib import Path

from kernels.case import Backend
from kernels.errors import UnavailableError

_BUSY = re.compile(
    r"already in use|is\(are\) busy|devices? (?:is|are)(?:/are)?(?:\(s\))? (?:busy|in use)|busy or unavailable"
    r"|ABORTED: .*lock|DEVICE_UNAVAILABLE",
    re.IGNORECASE,
)

_ADVICE = re.compile(r"\s*\((?:set|you may need to)[^()]*JAX_PLATFORMS[^()]*\)")
"""What JAX advises would put a cpu row under another backend's name."""

_HOLDER = re.compile(r"\bpid\W{0,3}(\d+)", re.IGNORECASE)

_NODES = {Backend.TPU: re.compile(r"/dev/(accel\d+|vfio/\d+)$"), Backend.GPU: re.compile(r"/dev/nvidia\d+$")}


def unusable(framework: str, backend: Backend, error: BaseException) -> UnavailableError:
    """Build the error for a device that a framework cannot open or compute on.

    Args:
        framework: the adapter's name.
        backend: the device that was asked for.
        error: what the framework raised.

    Returns:
        The error, one line whatever the framework wrote; it begins with ``device busy`` where another process holds
        the device, and names that process where it can be told.
    """
    text = _ADVICE.sub("", " ".join(str(error).split()))
    if not text:
        text = f"it sees none; is a driver for it installed, and does {framework} have the plugin for it?"
    if not _BUSY.search(text):
        return UnavailableError(f"{framework} has no usable {backend.value} device here: {text[:400]}")
    named = _HOLDER.search(text)
    pid = int(named.group(1)) if named else next(iter(holders(backend)), None)
    if pid is None:
        holder = "the holder cannot be told; a lock file that a dead process left behind can be removed"
    elif Path("/proc").is_dir() and not Path(f"/proc/{pid}").exists():
        holder = f"process {pid} held it and is gone: remove the lock file that it left behind"
    else:
        holder = f"process {pid} holds it: end that process, or wait for it"
    return UnavailableError(f"device busy ({framework}, {backend.value}): {holder} ({text[:300]})")


def require_driver(framework: str) -> None:
    """See that NVIDIA's driver is there, before a framework calls libraries that need it.

    Without a driver some of them end the process where others report an error: CUPTI 13.2 does, when JAX asks for its
    version. The driver's library is loaded, as the framework loads it next, and not initialized.

    Args:
        framework: the adapter's name.

    Raises:
        UnavailableError: it cannot be loaded.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise unusable(framework, Backend.GPU, OSError(f"NVIDIA's driver cannot be loaded: {error}")) from error


def present(backend: Backend) -> bool:
    """Tell whether the system shows a device, whatever a framework makes of it.

    Args:
        backend: cpu, gpu or tpu.

    Returns:
        True for the host, and for a device whose node is there.
    """
    node = _NODES.get(backend)
    folders = (Path("/dev"), Path("/dev/vfio"))
    return node is None or any(
        node.search(str(file)) for folder in folders if folder.is_dir() for file in folder.iterdir()
    )


def holders(backend: Backend) -> list[int]:
    """Find the processes that hold a device open.

    Args:
        backend: gpu or tpu; the host is held by none.

    Returns:
        Process ids other than this one's, as far as this user may see them.
    """
    found = set()
    if backend is Backend.GPU:
        query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
            found |= {int(line) for line in done.stdout.split() if line.isdigit()}
    node = _NODES.get(backend)
    for process in Path("/proc").glob("[0-9]*") if node else ():
        with contextlib.suppress(OSError):
            if any(node.search(str(link.readlink())) for link in (process / "fd").iterdir()):  # type: ignore[union-attr]
                found.add(int(process.name))
    return sorted(found - {os.getpid()})
