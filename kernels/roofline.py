"""The machine's roofline: the bandwidth and arithmetic that a kernel could reach, measured once per run and backend.

Run as ``python -m kernels.roofline BACKEND``; prints one JSON line with the keys of ``kernels.floors.Roofline``.
On the cpu NumPy measures, on accelerators JAX. Each figure is the best of its trials: a ceiling is wanted, and whatever
else runs on the machine can only lower it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from kernels import interpreter, machine
from kernels.case import Backend
from kernels.errors import UnavailableError
from kernels.frameworks import frameworks
from kernels.variables import environment

DEADLINE_S = 120.0
"""Opening an accelerator takes most of it; the cpu is done in under two seconds."""

COPY_NBYTES = 2**28, 2**29
"""The least and the most that both arrays of the copy hold, whatever the last-level cache."""

CHUNK_NBYTES = 2**23
"""A copy is timed in chunks, so that what else runs on the machine spoils some of them and not all."""

CACHED_NBYTES = tuple(2**k for k in range(13, 22))
"""Working sets from the first-level cache up: source and destination of a copy together."""

PRODUCT_ROWS = 256
"""Of the square matrices that are multiplied: large enough for the full rate, small enough for the caches."""


def measure(backend: Backend, threads: int) -> dict[str, float | str]:
    """Measure the roofline in a fresh process, in the environment of the cases.

    Args:
        backend: whose.
        threads: threads that a framework may use.

    Returns:
        The keys of ``kernels.floors.Roofline``.

    Raises:
        UnavailableError: it cannot be had.
    """
    variables = environment(threads)
    if backend is Backend.CPU:
        # One product a thread: threads that wait for each other within a product show whoever else is running.
        variables |= environment(1)
    arguments = ["-m", "kernels.roofline", backend.value, str(threads)]
    found: dict[str, float | str] = interpreter.told(arguments, variables, DEADLINE_S)
    return found


def host(threads: int) -> dict[str, float]:
    """Measure the processors with NumPy, whose linear algebra must have been told to use one thread.

    Args:
        threads: as many work at once, each on arrays of its own.

    Returns:
        The keys of ``kernels.floors.Roofline`` but the backend.
    """
    found: dict[str, float] = {}
    with ThreadPoolExecutor(threads) as pool:

        def products() -> None:
            for dtype in ("float32", "float64"):
                rates = list(pool.map(_product, [dtype] * threads))
                # A library without tuned products shows what it is: it would pass off a slow loop as the peak.
                if min(rates) > _elementwise(dtype):
                    key = f"operations_per_s_{dtype}"
                    found[key] = max(sum(rates), found.get(key, 0.0))

        # Three times, spread over the process's time: what runs beside it comes in bursts.
        products()
        found["copy_bytes_per_s"] = _copy(pool, threads)
        products()
        found["cache_bytes_per_s"] = sum(pool.map(lambda _: _cached(), range(threads)))
        products()
    return found


def accelerator(backend: Backend, nbytes: int = 2**28, rows: int = 8192) -> dict[str, float]:
    """Measure a device with JAX.

    Args:
        backend: whose.
        nbytes: size of the array that is copied, beyond every cache of the device.
        rows: of the square matrices that are multiplied.

    Returns:
        The keys of ``kernels.floors.Roofline`` but the backend.

    Raises:
        UnavailableError: JAX or the device is not there.
    """
    frameworks()["jax"](backend, "float64" if backend is not Backend.TPU else "float32")
    import jax
    import jax.numpy as jnp

    def rate(function: Any, x: Any, amount: float, calls: int) -> float:
        compiled = jax.jit(function)
        jax.block_until_ready(compiled(x))
        # Calls in a row, waited for once: what the device can do, not what one dispatch costs.
        return amount / _best(lambda: jax.block_until_ready([compiled(x) for _ in range(calls)]), budget_s=1.0) * calls

    def stay(x: Any) -> Any:
        return jax.lax.fori_loop(0, 64, lambda _, y: jax.lax.optimization_barrier(y * 1.0001 + 1.0), x)

    big = jnp.ones(nbytes // 4, jnp.float32)
    found = {"copy_bytes_per_s": rate(lambda x: x + 1, big, 2 * nbytes, 4)}
    cached = [rate(stay, big[: nbytes // 4 // part], 64 * 2 * nbytes / part, 1) for part in (8, 16, 32, 64)]
    found["cache_bytes_per_s"] = max(found["copy_bytes_per_s"], *cached)
    del big
    dtypes = ["float32", "bfloat16", "float16"] + (["float64"] if backend is not Backend.TPU else [])
    for dtype in dtypes:
        a = jax.random.normal(jax.random.key(0), (rows, rows), jnp.float32).astype(dtype)
        found[f"operations_per_s_{dtype}"] = rate(lambda x: x @ x, a, 2 * float(rows) ** 3, 4)
    return found


def main(backend: str, threads: str | None = None) -> None:
    """Measure and print.

    Args:
        backend: cpu, gpu or tpu.
        threads: their number, in a process that has the environment of the cases; None starts such a process.
    """
    try:
        if threads is None:
            found = measure(Backend(backend), len(machine.affinity()))
        elif backend == Backend.CPU:
            found = {"backend": backend, **host(int(threads))}
        else:
            found = {"backend": backend, **accelerator(Backend(backend))}
    except UnavailableError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(found) + "\n")


def _copy(pool: ThreadPoolExecutor, threads: int) -> float:
    """Give bytes read and written a second by all threads, each on a slice that it touched first."""
    least, most = COPY_NBYTES
    both = min(max(least, 2 * machine.last_level_cache_nbytes()), most, machine.memory_available() // 4)

    def stream(_: int) -> float:
        source, target = np.empty(both // 2 // threads, np.uint8), np.empty(both // 2 // threads, np.uint8)
        source.fill(1)
        target.fill(0)
        rates, stop = [], perf_counter() + 0.25
        while perf_counter() < stop:
            for begin in range(0, source.size, CHUNK_NBYTES):
                chunk = source[begin : begin + CHUNK_NBYTES]
                start = perf_counter()
                np.copyto(target[begin : begin + CHUNK_NBYTES], chunk)
                rates.append(2 * chunk.nbytes / (perf_counter() - start))
        return float(np.quantile(rates, 0.9))

    return sum(pool.map(stream, range(threads)))


def _cached() -> float:
    """Give bytes read and written a second by one thread, over the working set that is fastest."""
    rates: list[float] = []
    for both in CACHED_NBYTES:
        source, target = np.ones(both // 2, np.uint8), np.empty(both // 2, np.uint8)
        copy = _best(partial(np.copyto, target, source), calls=max(1, 2**20 // both), budget_s=0.025)
        rates.append(both / copy)
    return max(rates)


def _product(dtype: str) -> float:
    """Give operations a second of a matrix product by one thread."""
    a = np.random.default_rng(0).standard_normal((PRODUCT_ROWS, PRODUCT_ROWS)).astype(dtype)
    out = np.empty_like(a)
    return 2 * PRODUCT_ROWS**3 / _best(lambda: np.matmul(a, a, out=out), trials=200, budget_s=0.06)


def _elementwise(dtype: str) -> float:
    """Give products a second of numbers in a cache by one thread."""
    x = np.ones(4096, dtype)
    out = np.empty_like(x)
    return x.size / _best(lambda: np.multiply(x, x, out=out), calls=32, budget_s=0.01)


def _best(call: Callable[[], object], calls: int = 1, trials: int = 20, budget_s: float = 0.04) -> float:
    """Give the least seconds of a call, over trials of several calls within a budget; the first trial warms up."""
    best, stop = float("inf"), perf_counter() + budget_s
    for trial in range(trials):
        start = perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (perf_counter() - start) / calls)
        if trial and perf_counter() > stop:
            break
    return best


if __name__ == "__main__":
    main(*sys.argv[1:3])
