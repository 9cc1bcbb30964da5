"""The least time that a machine can take for a kernel's declared work, by its measured roofline.

The roofline model is that of Williams, Waterman and Patterson (Communications of the ACM 52(4), 2009): a computation is
bounded by its operations over the peak rate, or by its bytes over the bandwidth, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels.case import Case
from kernels.discovery import find
from kernels.spec import Work, itemsize

Roofline = Mapping[str, float | str]
"""Of one backend, as ``kernels.roofline`` measures it:

- ``backend``: its name,
- ``copy_bytes_per_s``: read and written, between arrays far beyond the caches,
- ``cache_bytes_per_s``: the same over the working set that is fastest,
- ``operations_per_s_float32`` and so on: multiplications and additions in a matrix product, by dtype.

A key that is absent could not be measured.
"""


def floor_ns(case: Case, roofline: Roofline) -> float | None:
    """Give the time below which a timing cannot be true: its bytes may all live in the fastest cache.

    Args:
        case: the case.
        roofline: of the case's backend.

    Returns:
        Nanoseconds, the larger of the memory's and the arithmetic's; None where the roofline does not cover the case.
    """
    return _bound_ns(case, roofline, "cache_bytes_per_s")


def attainable_ns(case: Case, roofline: Roofline) -> float | None:
    """Give the time of an implementation that is as good as the machine, with its bytes in memory; of values alone.

    Args:
        case: the case.
        roofline: of the case's backend.

    Returns:
        Nanoseconds, the larger of the memory's and the arithmetic's; None where the roofline does not cover the case.
    """
    return None if case.derivative else _bound_ns(case, roofline, "copy_bytes_per_s")


def share(elapsed_ns: float, attainable: float) -> float:
    """Give the share of the roofline that a timing reached.

    Args:
        elapsed_ns: nanoseconds per call.
        attainable: what ``attainable_ns`` gave for the case.

    Returns:
        1 is the roofline itself. More than 1 is no fault where the data lives in a cache, which is faster than the
        memory that the roofline is drawn for.
    """
    return attainable / elapsed_ns


def declared_work(case: Case) -> Work:
    """Give the least work of a case by what its kernel declares for the value.

    A gradient is returned with its objective, so it takes the operations of the value at least; in reverse mode both
    together take up to five times those (Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008, section 3.3).
    Its bytes are not known: outputs need not be written. A Hessian-vector product is returned alone, and that of a
    quadratic form may take less than the value: nothing is known of it.

    Args:
        case: the case.

    Returns:
        Operations and bytes of one call; 1 where nothing is known.
    """
    kernel = find(case.kernel, case.source)
    work = kernel.work(itemsize(case.dtype), **kernel.sizes[case.size])
    return work if case.derivative == 0 else Work(work.operations if case.derivative == 1 else 1, 1)


def _bound_ns(case: Case, roofline: Roofline, bandwidth: str) -> float | None:
    if roofline.get("backend") != case.backend.value or bandwidth not in roofline or case.derivative == 2:
        return None
    work = declared_work(case)
    rate = roofline.get(f"operations_per_s_{case.dtype}")
    arithmetic_s = work.operations / float(rate) if rate else 0.0
    return 1e9 * max(work.nbytes / float(roofline[bandwidth]), arithmetic_s)
