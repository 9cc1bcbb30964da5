"""Clocks: how fast processors and devices ran, and whether heat or power held them back."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernels import machine
from kernels.case import Backend

PROCESSORS = Path("/sys/devices/system/cpu")

MOST_PROCESSORS = 64
"""No more are read: each costs two small files, and heat comes to a package at once."""

SLOWDOWNS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of the driver's reasons that say the device was held back (nvmlClocksEventReasons in NVIDIA's NVML)."""

POWER_CAP = 0x4
"""The bit of the power limit; heavy products reach it on a healthy device, so alone it says nothing."""

SMI_S = 10.0


@dataclass(frozen=True, slots=True)
class Clocks:
    """One reading; None for what the machine does not tell.

    Attributes:
        cpu_throttles: how often the processors have been held back by heat since boot.
        cpu_mhz: clock of the processor that this process ran on last.
        cpu_base_mhz: the clock that it promises without turbo; half of its highest where it does not tell.
        gpu_mhz: clock of the device's multiprocessors.
        gpu_max_mhz: the highest that it could have.
        gpu_reasons: bits of why the driver holds the clock back.
    """

    cpu_throttles: int | None = None
    cpu_mhz: float | None = None
    cpu_base_mhz: float | None = None
    gpu_mhz: float | None = None
    gpu_max_mhz: float | None = None
    gpu_reasons: int | None = None

    def facts(self) -> dict[str, float | int]:
        """Give what is known of the clocks, for the row."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "cpu_throttles"}

    def slowdowns(self) -> list[str]:
        """Say in words what holds the device back."""
        bits = self.gpu_reasons or 0
        found = [words for bit, words in SLOWDOWNS.items() if bits & bit]
        capped = bits & POWER_CAP and self.gpu_mhz and self.gpu_max_mhz and self.gpu_mhz < self.gpu_max_mhz / 2
        return [*found, "power limit"] if capped else found


def read(backend: Backend, device: bool = True) -> Clocks:
    """Read the clocks of this moment.

    Args:
        backend: where the case runs.
        device: whether a gpu is asked; that starts a program, so once per process and after the timing.

    Returns:
        The reading.
    """
    host = processors(machine.affinity(), last_processor())
    if backend is Backend.CPU:
        return host
    # A processor that waits for a device may rest, so its clock is told and not judged.
    host = replace(host, cpu_base_mhz=None)
    if backend is not Backend.GPU or not device:
        return host
    mhz, max_mhz, reasons = gpu(os.environ.get("CUDA_VISIBLE_DEVICES"))
    return replace(host, gpu_mhz=mhz, gpu_max_mhz=max_mhz, gpu_reasons=reasons)


def processors(numbers: Sequence[int], running: int | None, root: Path = PROCESSORS) -> Clocks:
    """Read the processors' clocks and throttle counts.

    Args:
        numbers: of the processors that this process may use.
        running: the one whose clock is read: an idle one is slow, and rightly so.
        root: the directory that holds cpu0 and so on.

    Returns:
        The reading, without a gpu.
    """
    counts = [
        _number(root / f"cpu{number}/thermal_throttle/{which}_throttle_count")
        for number in numbers[:MOST_PROCESSORS]
        for which in ("core", "package")
    ]
    known = [int(count) for count in counts if count is not None]
    frequency = root / f"cpu{running}/cpufreq"
    khz, most = (_number(frequency / name) for name in ("scaling_cur_freq", "cpuinfo_max_freq"))
    base = _number(frequency / "base_frequency") or (most / 2 if most else None)
    return Clocks(
        cpu_throttles=sum(known) if known else None,
        cpu_mhz=khz / 1e3 if khz else None,
        cpu_base_mhz=base / 1e3 if base else None,
    )


def gpu(visible: str | None) -> tuple[float | None, float | None, int | None]:
    """Ask the driver's own tool for the first visible device.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES``, as the case has it; None shows all.

    Returns:
        Clock and highest clock in MHz, and the bits of the reasons; None each where it does not tell.
    """
    which = (visible if visible is not None else "0").split(",")[0].strip()
    if not which or which == "-1":
        return None, None, None
    for reasons in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):
        # The first name came with driver 535; older drivers know the second alone.
        query = f"--query-gpu=clocks.sm,clocks.max.sm,{reasons}"
        command = ["nvidia-smi", f"--id={which}", query, "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=False)
        except (OSError, subprocess.SubprocessError):
            break
        fields = [field.strip() for field in done.stdout.strip().split(",")]
        if done.returncode == 0 and len(fields) == 3:
            bits = int(fields[2], 16) if fields[2].lower().startswith("0x") else None
            return _float(fields[0]), _float(fields[1]), bits
    return None, None, None


def last_processor(stat: Path = Path("/proc/self/stat")) -> int | None:
    """Read on which processor this process ran last.

    Args:
        stat: its state (proc_pid_stat(5)).

    Returns:
        The processor's number; None where the system does not tell.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Field 39; the second one, a name in parentheses, may hold spaces.
        return int(stat.read_text().rpartition(")")[2].split()[36])
    return None


def _number(path: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text())
    return None


def _float(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return None
