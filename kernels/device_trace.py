"""Device time: how long a device was busy, read from a profile and never from the host's clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PLANE = re.compile(r"/device:(GPU|TPU):\d+\b")

_WORK_LINES = {"GPU": re.compile(r"Stream #"), "TPU": re.compile(r"(Async )?XLA Ops$|Sparse Core Ops$")}
"""The lines on which a device's own work stands. The others of its planes are drawn from these (steps, modules, name
scopes) and cover its idle time too."""

_COPY = re.compile(r"mem(cpy|set)", re.IGNORECASE)


class NoDeviceTimeError(Exception):
    """A profile tells nothing of a device, or nothing that can be true; the message says why."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One event of a profile.

    Attributes:
        start_ns: begin, from the profile's own zero.
        duration_ns: length.
        name: what ran, such as a kernel's name.
    """

    start_ns: float
    duration_ns: float
    name: str


@dataclass(frozen=True, slots=True)
class Line:
    """One timeline of a plane, such as a stream of a GPU."""

    name: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Plane:
    """One device, or one part of the host, in a profile."""

    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """What a profile tells of the devices.

    Attributes:
        busy_ns: time in which at least one of them worked: the union of its intervals.
        span_ns: from the begin of the first interval to the end of the last.
        kernels: programs that ran; copies and fills are part of the busy time, and not counted here.
    """

    busy_ns: int
    span_ns: int
    kernels: int


def device_time(planes: Sequence[Plane], wall_ns: int) -> DeviceTime:
    """Read the device's time from a profile.

    Args:
        planes: of the profile; those of the host are left out.
        wall_ns: how long the profiled calls took by the host's clock, every one of them waited for.

    Returns:
        The device's time, which is no longer than ``wall_ns``.

    Raises:
        NoDeviceTimeError: there is no device in the profile, no work on it, or more of it than the calls lasted.
    """
    devices = [(plane, kind.group(1)) for plane in planes if (kind := _PLANE.match(plane.name))]
    if not devices:
        names = ", ".join(plane.name for plane in planes) or "nothing"
        raise NoDeviceTimeError(f"the profile holds no plane of a device, only {names}")
    work = [
        interval
        for plane, kind in devices
        for line in plane.lines
        if _WORK_LINES[kind].match(line.name)
        for interval in line.intervals
    ]
    if not work:
        lines = ", ".join(line.name for plane, _ in devices for line in plane.lines) or "no line"
        raise NoDeviceTimeError(f"the profile holds no work of the device, only {lines}")
    busy_ns, span_ns = union(work)
    if busy_ns > wall_ns:
        raise NoDeviceTimeError(f"the profile says {busy_ns} ns of work in calls that lasted {wall_ns} ns")
    return DeviceTime(busy_ns, span_ns, sum(not _COPY.match(interval.name) for interval in work))


def union(intervals: Iterable[Interval]) -> tuple[int, int]:
    """Measure the union of intervals, and what it spans.

    Args:
        intervals: at least one, in any order; they may overlap, touch, nest and be empty.

    Returns:
        Nanoseconds that at least one of them covers, and nanoseconds from the first begin to the last end.
    """
    # Whole picoseconds, as profiles count them: sums stay exact, and a union is never above its span.
    bounds = sorted(
        (begin := round(interval.start_ns * 1000), begin + round(interval.duration_ns * 1000)) for interval in intervals
    )
    first = end = bounds[0][0]
    covered = 0
    for begin, stop in bounds:
        covered += max(0, stop - max(begin, end))
        end = max(end, stop)
    return covered // 1000, (end - first) // 1000
