"""The contract of the suite: every kernel in every framework, mode, dtype and derivative that is installed, at size S.

A kernel or an adapter that is added is held to it without a test of its own. The cases run side by side, each of the
workers pinned to a core, two fresh processes a case.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from kernels import workers
from kernels.assignment import Assignment, Role
from kernels.case import Case
from kernels.discovery import suite
from kernels.frameworks import frameworks, modes
from kernels.guards import Flag
from kernels.measurement import Outcome, Status
from kernels.phase import Phase
from kernels.selection import everything
from kernels.spec import Kernel, dtype_named, itemsize
from kernels.timing import Sampling
from kernels.workers import Workers

SAMPLING = Sampling(rounds=1, budget_s=0.005, min_sample_ms=0.1, warmup_ms=0.5, timeout_s=120.0)

OF_THE_MACHINE = {Flag.NOISY, Flag.CONTENDED, Flag.THROTTLED}
"""Flags that say something of the machine at that moment, and nothing of the kernel."""

WORK_FACTOR = 4.0
"""How far the compiler's counts of a straight program may lie from the declared least work, up and down: a stable form
subtracts a maximum; what the declared form computes twice, the compiler may compute once."""

MORE_OPERATIONS = {"cumsum": 32.0, "life": 32.0, "poisson": 8.0}
"""Kernels whose programs do more than the least: a sum of all before, done side by side, takes log2 n of them (17 times
at n = 1000), the count of a Fourier transform is six times that of the split-radix one, and older versions of XLA count
the moves of life's rolls as operations."""

MORE_BYTES = 16.0
"""The compiler counts what lies between its operations too; not so the declared least, inputs and outputs."""

LONG = ("torch/compile",)
"""Modes that take ten seconds of a C++ compiler a case, a minute and more where a kernel loops: ``OF_LONG`` in their
first dtype, and the derivatives of one."""

OF_LONG = ("attention", "conv2d", "cumsum", "dense", "double", "layer_norm", "matmul", "sincos", "sort", "total")
"""A kernel of each kind: elementwise, product, reduction, scan, normalisation, convolution, sort, several together.

Derivatives of all others are taken in float64, whose tolerance is the tightest. JITMATRIX_CONTRACT=all has every dtype
and derivative in every mode, in more than an hour on two cores: ``make contract``."""


def _held(case: Case) -> bool:
    """Tell whether a case is in this run of the contract."""
    if os.environ.get("JITMATRIX_CONTRACT") == "all":
        return True
    if f"{case.framework}/{case.mode}" in LONG:
        of_long = case.kernel in OF_LONG and case.dtype == suite()[case.kernel].dtypes[0]
        return of_long and (not case.derivative or case.kernel == "dense")
    return not case.derivative or case.dtype == "float64"


PLAN = replace(everything(), sizes=("S",), derivatives=(0, 1, 2)).expand(suite(), modes())
INSTALLED = [case for case in PLAN.cases if frameworks()[case.framework].installed() and _held(case)]
MISSING = [name for name, adapter in frameworks().items() if not adapter.installed()]

Outcomes = dict[Case, Future[tuple[Outcome, Outcome]]]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """What the two processes of each selected case left behind, begun in the order of the tests."""
    wanted = [item.callspec.params["case"] for item in request.session.items if "case" in _params(item)]
    selected = [case for case in dict.fromkeys(wanted) if isinstance(case, Case) and case in set(INSTALLED)]
    count = len(workers.cores())
    with Workers(count) as pool, ThreadPoolExecutor(count) as threads:

        def measure(case: Case) -> tuple[Outcome, Outcome]:
            first, second = (pool.run(Assignment(case, role, SAMPLING)) for role in (Role.STEADY, Role.FIRST_CALL))
            return first, second

        yield {case: threads.submit(measure, case) for case in selected}
        threads.shutdown(wait=False, cancel_futures=True)


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.mark.parametrize("case", INSTALLED, ids=lambda case: case.id)
def test_a_case_is_right_unflagged_and_the_same_in_two_fresh_processes(case, outcomes):
    steady, first_call = outcomes[case].result()
    for outcome in (steady, first_call):
        # Count, shape, dtype and values of every output were compared in the process: ok says that they agree.
        assert outcome.status is Status.OK, f"{outcome.reason}\n{outcome.output}"
    found = {finding.flag: finding.reason for finding in steady.findings + first_call.findings}
    # A result cache is what this mode is for, and the guard is to say so.
    due = {Flag.MEMOISED} if case.mode == "lru_cache" else set()
    assert found.keys() - OF_THE_MACHINE == due, found
    assert steady.facts["output_hash"] == first_call.facts["output_hash"]
    # Startup is a process of its own, and reload one with a cache.
    planned = set(modes()[f"{case.framework}/{case.mode}"].phases) - {Phase.STARTUP, Phase.RELOAD}
    if len(suite()[case.kernel].sizes) == 1:
        planned.discard(Phase.RETRACE)
    assert {reading.phase for reading in steady.readings + first_call.readings} == planned


STRAIGHT = [case for case in INSTALLED if (case.framework, case.mode) == ("jax", "jit") and not case.derivative]


@pytest.mark.parametrize("case", STRAIGHT, ids=lambda case: case.id)
def test_declared_work_is_what_the_compiler_counts(case, outcomes):
    steady, _ = outcomes[case].result()
    kernel = suite()[case.kernel]
    work = kernel.work(itemsize(case.dtype), **kernel.sizes["S"])
    operations, nbytes = steady.facts["program_operations"], steady.facts["program_nbytes"]
    if not steady.facts["program_straight"]:
        operations, nbytes = _counted(kernel, case.dtype)
    if work.operations > 1:
        most = MORE_OPERATIONS.get(case.kernel, WORK_FACTOR)
        assert work.operations / WORK_FACTOR <= operations <= most * work.operations
    if steady.facts["program_straight"]:
        assert nbytes / MORE_BYTES <= work.nbytes <= WORK_FACTOR * nbytes


def _counted(kernel: Kernel, dtype: str) -> tuple[float, float]:
    """Count a loop's body as often as it runs: unrolled, in the body over the array namespace."""
    import jax

    if kernel.array is None or kernel.name == "jacobi2d":
        pytest.skip("the program calls a library or loops, which the compiler counts once, and has no straight form")
    inputs = kernel.inputs(np.random.default_rng(0), dtype_named(dtype), **kernel.sizes["S"])
    with jax.experimental.enable_x64(dtype == "float64") if hasattr(jax.experimental, "enable_x64") else nullcontext():
        costs = jax.jit(functools.partial(kernel.array, jax.numpy)).lower(*inputs).compile().cost_analysis()
    return costs.get("flops", 0.0) + costs.get("transcendentals", 0.0), costs["bytes accessed"]


@pytest.mark.parametrize("kernel", suite().values(), ids=lambda kernel: kernel.name)
def test_a_kernel_declares_work_that_is_positive_and_grows(kernel):
    works = [kernel.work(itemsize(kernel.dtypes[0]), **dims) for dims in kernel.sizes.values()]
    assert all(work.operations >= 1 and work.nbytes >= 1 for work in works)
    assert all(a.nbytes < b.nbytes or a.operations < b.operations for a, b in itertools.pairwise(works))


@pytest.mark.parametrize("framework", MISSING)
def test_a_framework_that_is_not_here(framework):
    pytest.skip(f"{framework} is not installed; {frameworks()[framework].INSTALL}")


def test_every_cell_is_a_case_or_a_skip_with_its_reason():
    cells = [*PLAN.cases, *(skip.case for skip in PLAN.skips)]
    assert len({case.id for case in cells}) == len(cells)
    assert all(skip.reason for skip in PLAN.skips)
    assert {case.kernel for case in PLAN.cases} == set(suite())
