"""Machine (hardware) and Environment (versions, settings, image): what a number is worth nothing without."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from kernels import checkout
from kernels.frameworks import frameworks
from kernels.image import NAME

RECORDED = re.compile(
    r"^(OMP|OPENBLAS|MKL|BLIS|NUMBA|JAX|XLA|TF(?!_(CLI|TOKEN|VAR)_)|TORCH|CUDA|NVIDIA|TPU|LIBTPU|MALLOC|LD_PRELOAD|GOMP|KMP)(_|$)|^PYTHON(DONT|OPT|HASH|MALLOC)"
)
"""Environment variables that bear on a timing; those alone are recorded, so that no secret ends in a result.
Terraform's begin with TF too, and hold credentials."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware, without anything that jitters: two runs on one machine have one fingerprint.

    Attributes:
        architecture: such as x86_64.
        cpu_model: the processor's own name.
        cpu_flags: hash of the processor's feature flags, which decide what a compiler may emit.
        cores: logical processors of the machine.
        memory_nbytes: physical memory, rounded down to a GiB.
        cache_nbytes: the last-level cache.
        accelerators: devices by name; their driver may be updated, and so is of the environment.
    """

    architecture: str
    cpu_model: str
    cpu_flags: str
    cores: int
    memory_nbytes: int
    cache_nbytes: int
    accelerators: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits over every attribute."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @classmethod
    def here(cls) -> Machine:
        """Read this machine.

        Returns:
            The hardware as the operating system tells it.
        """
        info = _read("/proc/cpuinfo")
        model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info, re.MULTILINE)
        flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.MULTILINE)
        memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
        return cls(
            architecture=platform.machine(),
            cpu_model=model.group(1).strip() if model else platform.processor() or "unknown",
            cpu_flags=hashlib.sha256(" ".join(sorted(flags.group(1).split())).encode()).hexdigest()[:8]
            if flags
            else "",
            cores=os.cpu_count() or 1,
            memory_nbytes=int(memory.group(1)) * 1024 // 2**30 * 2**30 if memory else 0,
            cache_nbytes=last_level_cache_nbytes(),
            accelerators=tuple(name for name, _ in _nvidia()),
        )


@dataclass(frozen=True, slots=True)
class Environment:
    """What else decides a number on a given machine.

    Attributes:
        python: the interpreter's version.
        operating_system: kernel and distribution.
        versions: distribution to version, of every framework that is installed.
        variables: environment variables that bear on a timing, as the user set them.
        affinity: processors that this process may use.
        cpu_quota: processors' worth of time that the cgroup grants; None where unlimited.
        memory_limit_nbytes: the cgroup's limit; None where unlimited.
        governor: frequency governor; None where the machine does not tell.
        driver: version of the accelerators' driver; None where there is none that tells.
        load: runnable processes over the last minute, at the run's start.
        commit: the git commit of this checkout; None outside one.
        dirty: whether the checkout differs from that commit, as ``kernels.checkout`` says.
        image: digest or name of the container image; None outside one.
        hostname: the host, to find it again; no part of any comparison.
        packages: distribution to version, of all that the container image holds; empty outside one. Names are as an
            index has them (PEP 503: tensorflow-cpu), however the distribution writes its own.
    """

    python: str
    operating_system: str
    versions: Mapping[str, str]
    variables: Mapping[str, str]
    affinity: tuple[int, ...]
    cpu_quota: float | None
    memory_limit_nbytes: int | None
    governor: str | None
    driver: str | None
    load: float
    commit: str | None
    dirty: bool
    image: str | None
    hostname: str
    packages: Mapping[str, str]

    @classmethod
    def here(cls) -> Environment:
        """Read this process's environment.

        Returns:
            The environment.
        """
        commit, dirty = _commit()
        image = os.environ.get(NAME)
        return cls(
            python=platform.python_version(),
            operating_system=platform.platform(),
            versions={k: v for adapter in frameworks().values() for k, v in adapter.versions().items()},
            variables={k: v for k, v in sorted(os.environ.items()) if RECORDED.search(k)},
            affinity=tuple(affinity()),
            cpu_quota=cpu_quota(),
            memory_limit_nbytes=memory_limit(),
            governor=governor(),
            driver=next((driver for _, driver in _nvidia()), None),
            load=os.getloadavg()[0],
            commit=commit,
            dirty=dirty,
            image=image,
            hostname=platform.node(),
            packages=_packages() if image else {},
        )

    def to_json(self) -> dict[str, Any]:
        """Give the environment as plain values."""
        return asdict(self)


def _packages() -> dict[str, str]:
    return {re.sub(r"[-_.]+", "-", each.name).lower(): each.version for each in metadata.distributions()}


def affinity() -> list[int]:
    """List the processors that this process may run on.

    Returns:
        Processor numbers, ascending.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def governor() -> str | None:
    """Read the frequency governor of the first processor.

    Returns:
        Such as ``performance``; None where the machine does not tell.
    """
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def cpu_quota() -> float | None:
    """Read the cgroup's processor quota, of version 2 or 1.

    Returns:
        Processors' worth of time; None where unlimited or unknown.
    """
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    if not quota:
        quota, period = (_read(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    if not quota.isdigit() or not period.isdigit():
        return None
    return int(quota) / int(period)


def memory_limit() -> int | None:
    """Read the cgroup's memory limit, of version 2 or 1.

    Returns:
        Bytes; None where unlimited or unknown.
    """
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(path).strip()
        if text.isdigit() and int(text) < 2**60:
            return int(text)
    return None


def memory_available() -> int:
    """Read how much memory a new process could take.

    Returns:
        Bytes: what the kernel says is available, or what the cgroup's limit leaves where that is less.
    """
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    available = int(found.group(1)) * 1024 if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit()
    return min(available, max(0, limit - _memory_held())) if limit else available


def _memory_held() -> int:
    """Read what the cgroup holds and cannot give back: all but files that were read and are used no more."""
    for folder, held, idle in (
        ("/sys/fs/cgroup", "memory.current", "inactive_file"),
        ("/sys/fs/cgroup/memory", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        used = _read(f"{folder}/{held}").strip()
        if used.isdigit():
            files = re.search(rf"^{idle} (\d+)$", _read(f"{folder}/memory.stat"), re.MULTILINE)
            return max(0, int(used) - (int(files.group(1)) if files else 0))
    return 0


def last_level_cache_nbytes() -> int:
    """Read the size of the last-level cache.

    Returns:
        Bytes; 32 MiB where the machine does not tell.
    """
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", _read(str(path)).strip())
        if found:
            sizes.append(int(found.group(1)) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[found.group(2)])
    return max(sizes, default=32 * 2**20)


def working_set_beyond_caches() -> int:
    """Choose how many bytes cold inputs rotate through.

    Returns:
        Twice the last-level cache, at most an eighth of the memory that is free.
    """
    return min(2 * last_level_cache_nbytes(), memory_available() // 8)


def processor_ticks() -> tuple[int, int] | None:
    """Read how long the processors ran in all and how long the hypervisor kept them.

    Returns:
        Total and stolen ticks since boot; None where the machine does not tell.
    """
    first = _read("/proc/stat").partition("\n")[0].split()
    if len(first) < 9:
        return None
    ticks = [int(value) for value in first[1:9]]
    return sum(ticks), ticks[7]


def steal_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Give the share of processor time that the hypervisor kept between two readings.

    Args:
        before: earlier ``processor_ticks``.
        after: later ones.

    Returns:
        A share from 0 to 1; None where unknown or where too few ticks lie between them to tell (a tick is 10 ms).
    """
    if before is None or after is None or after[0] - before[0] < 20:
        return None
    return (after[1] - before[1]) / (after[0] - before[0])


def _nvidia() -> list[tuple[str, str]]:
    """Ask the driver's own tool for the name of each device and the driver's version."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        found = (line.rpartition(",") for line in done.stdout.splitlines() if line.strip())
        return [(name.strip(), driver.strip()) for name, _, driver in found]
    return []


def _commit() -> tuple[str | None, bool]:
    commit, dirty = checkout.state()
    if commit is not None:
        return commit, dirty
    # An image has no git and no checkout, but what git said of the one that it was built from.
    built = os.environ.get("JITMATRIX_COMMIT", "")
    return built.removesuffix("-dirty") or None, built.endswith("-dirty")


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
