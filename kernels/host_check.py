"""Host checks: what of this machine and its present state falsifies timings, and how to mend it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels import machine, memory
from kernels.errors import UnavailableError
from kernels.guards import STEAL_SHARE

SAMPLE_S = 0.3
"""How long the processors are watched."""

BUSY_SHARE = 0.1
"""Share of the processors in use by others, above which they are in the way."""

SWAPPED_NBYTES = 64 * 2**20
"""Less than this in swap is what every system puts aside."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_PROCESSORS = Path("/sys/devices/system/cpu")
_NOTHING_TOLD = "the machine does not tell"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what was looked at.
        ok: whether it leaves timings alone.
        found: what is there, in words.
        mend: how to mend it; empty where there is nothing to mend.
    """

    name: str
    ok: bool
    found: str
    mend: str = ""


def threads(environ: Mapping[str, str], quota: float | None = None, processors: int | None = None) -> Check:
    """Compare thread counts with the processors that this process may use.

    Args:
        environ: the environment.
        quota: processors' worth of time that the control group grants; None reads it.
        processors: in the affinity; None counts them.

    Returns:
        The check.
    """
    count = len(machine.affinity()) if processors is None else processors
    quota = machine.cpu_quota() if quota is None else quota
    if quota is not None and quota < count:
        few = max(1, int(quota))
        found = f"{count} processors may be used, but the control group grants the time of {quota:g}"
        return Check("threads", False, found, f"start it under taskset -c 0-{few - 1}, or give the container a cpuset")
    others = {name: environ[name] for name in THREAD_VARIABLES if environ.get(name, str(count)) != str(count)}
    if others:
        found = (
            f"{', '.join(f'{k}={v}' for k, v in others.items())}; runs use {count}, one for each processor they have"
        )
        return Check(
            "threads", False, found, "unset it; for fewer threads allow fewer processors (taskset), or --workers"
        )
    return Check("threads", True, f"{count}, one for each processor that may be used")


def governor(root: Path = _PROCESSORS) -> Check:
    """Look at the frequency governors of the processors that this process may use.

    Args:
        root: the directory that holds cpu0 and so on.

    Returns:
        The check.
    """
    files = (root / f"cpu{number}/cpufreq/scaling_governor" for number in machine.affinity())
    names = sorted({text for file in files if (text := text_of(file))})
    if not names:
        return Check("governor", True, _NOTHING_TOLD)
    ok = names == ["performance"]
    return Check("governor", ok, ", ".join(names), "" if ok else "sudo cpupower frequency-set -g performance")


def turbo(root: Path = _PROCESSORS) -> Check:
    """Tell whether the processors may run above their base clock; a fact to know, and no fault.

    Args:
        root: the directory that holds cpu0 and so on.

    Returns:
        The check.
    """
    off, on = text_of(root / "intel_pstate/no_turbo"), text_of(root / "cpufreq/boost")
    if not off and not on:
        return Check("turbo", True, _NOTHING_TOLD)
    active = off == "0" or on == "1"
    return Check("turbo", True, "on: the clock depends on heat and on the other cores" if active else "off")


def load() -> Check:
    """Compare the load of the last minute with the processors.

    Returns:
        The check.
    """
    average, count = os.getloadavg()[0], os.cpu_count() or 1
    ok = average < max(0.5, count / 2)
    found = f"{average:.1f} processes wanted to run over the last minute, on {count} processors"
    return Check("load", ok, found, "" if ok else "end what else is running, or wait for it")


def processors(sample_s: float = SAMPLE_S) -> list[Check]:
    """Watch what the processors do while this process sleeps.

    Args:
        sample_s: for how long, in seconds.

    Returns:
        Two checks: what others use, and what the hypervisor keeps.
    """
    before = _ticks()
    time.sleep(sample_s)
    after = _ticks()
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    total = sum(spent)
    if len(spent) < 8 or total <= 0:
        return [Check("others", True, _NOTHING_TOLD), Check("steal", True, _NOTHING_TOLD)]
    # Fields of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
    used, stolen = (total - spent[3] - spent[4] - spent[7]) / total, spent[7] / total
    calm, own = used <= BUSY_SHARE, stolen <= STEAL_SHARE
    return [
        Check("others", calm, f"use {used:.0%} of the processors now", "" if calm else "end what else is running"),
        Check(
            "steal",
            own,
            f"the hypervisor keeps {stolen:.0%} of the processors' time",
            "" if own else "take a machine, or a kind of instance, whose processors are not shared",
        ),
    ]


def swap(meminfo: Path = Path("/proc/meminfo")) -> Check:
    """Look at how much memory has been put into swap.

    Args:
        meminfo: the system's account of its memory.

    Returns:
        The check.
    """
    sizes = {k: int(v) * 1024 for k, v in re.findall(r"^(\w+):\s+(\d+) kB", text_of(meminfo), re.MULTILINE)}
    used = sizes.get("SwapTotal", 0) - sizes.get("SwapFree", 0)
    ok = used < SWAPPED_NBYTES
    mend = "" if ok else "end what fills the memory, then sudo swapoff -a && sudo swapon -a"
    return Check("swap", ok, f"{used / 2**20:.0f} MiB in use", mend)


def limits() -> Check:
    """Tell how the memory of a case is limited; both ways hold.

    Returns:
        The check.
    """
    try:
        where = memory.place()
    except UnavailableError as error:
        return Check("memory limit", True, f"a resource limit for each process: {error}")
    return Check("memory limit", True, f"a control group (version {where.version}) in {where.parent}")


def text_of(path: Path) -> str:
    """Read a file of the system's.

    Args:
        path: the file.

    Returns:
        Its text without the white space around it; empty where it cannot be read.
    """
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _ticks() -> list[int]:
    first = text_of(Path("/proc/stat")).partition("\n")[0].split()
    return [int(field) for field in first[1:9]]
