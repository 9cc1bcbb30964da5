"""Stillness: how evenly this machine runs a fixed piece of work, before anything of the benchmark is asked of it."""

from __future__ import annotations

import statistics
import time

WINDOW_S = 0.01
SPAN_S = 2.0


def stillness(span_s: float = SPAN_S) -> str:
    """Run one loop of arithmetic over and over, and compare windows of 10 ms with the fastest of them.

    Args:
        span_s: for how long.

    Returns:
        One line: the median and the slowest twentieth over the fastest window. A machine of one's own stays under 1.1;
        what is more comes from other programs, or from neighbours that the system does not show.
    """
    windows: list[float] = []
    end = time.monotonic() + span_s
    while not windows or time.monotonic() < end:
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < WINDOW_S:
            sum(range(1000))
            count += 1
        windows.append(elapsed / count)
    ordered = sorted(windows)
    middle, slow = statistics.median(ordered) / ordered[0], ordered[len(ordered) * 19 // 20] / ordered[0]
    return (
        f"stillness: windows of a fixed loop take {middle:.2f} (median) and {slow:.2f} (slowest 5 %) times the fastest"
    )
