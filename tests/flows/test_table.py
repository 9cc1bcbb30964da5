"""The table: what may be compared is compared, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from flows.brief import Brief
from flows.table import result_table
from kernels.case import Case
from kernels.frameworks import modes
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase

NUMPY = Case("dense", "numpy", "eager", "M", "float32")


def measured(case: Case, status: Status = Status.OK, flags: dict[str, str] | None = None, **ns: float) -> Measurement:
    """A measurement of three quiet rounds; phases by name, nanoseconds per call."""
    mode = modes()[f"{case.framework}/{case.mode}"]
    events = dict.fromkeys(("traces", "lowerings", "compiles", "cache_hits", "cache_misses"), 0)
    timings = {}
    for name, value in ns.items():
        samples = tuple((round(value * (1 + i / 1000)),) * 3 for i in range(3))
        timings[Phase(name)] = Timing(Phase(name), samples, (1, 1, 1), events, None, flags or {})
    return Measurement(case, status, None, mode.phases, timings, {}, {}, 3)


def lines(measurements: list[Measurement], intervals: bool = True) -> dict[str, str]:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(result_table([Brief.of(measurement) for measurement in measurements], intervals))
    rows = [line for line in captured.get().splitlines() if line.strip()]
    return {line.split()[0]: line for line in rows}


def test_a_compiled_case_shows_speed_up_over_numpy_and_break_even_over_its_own_eager_mode() -> None:
    jit = replace(NUMPY, framework="jax", mode="jit")
    eager = replace(NUMPY, framework="jax", mode="eager")
    table = lines(
        [
            measured(NUMPY, first_call=3e6, steady=2e6),
            measured(eager, first_call=9e7, steady=3e6),
            measured(jit, first_call=1.01e8, compile=4e7, steady=1e6),
        ]
    )
    row = table[jit.id]
    assert "101 ms" in row
    assert "40 ms" in row
    assert "1 ms [1, 1]" in row
    assert "2x" in row
    # (101 - 1) ms over (3 - 1) ms a call.
    assert "50 [50, 50]" in row
    assert "x " not in table[NUMPY.id].removeprefix(NUMPY.id)


def test_a_flagged_row_is_shown_and_is_in_no_comparison() -> None:
    jit = replace(NUMPY, framework="jax", mode="jit")
    flagged = measured(NUMPY, flags={"noisy": "why"}, first_call=3e6, steady=2e6)
    table = lines([flagged, measured(jit, first_call=1e8, compile=4e7, steady=1e6)])
    assert "noisy" in table[NUMPY.id]
    assert "2x" not in table[jit.id]


def test_a_flagged_first_call_is_marked_and_in_no_break_even() -> None:
    jit = replace(NUMPY, framework="jax", mode="jit")
    eager = measured(replace(NUMPY, framework="jax", mode="eager"), steady=3e6)
    sound = measured(jit, first_call=1.01e8, compile=4e7, steady=1e6)
    first = replace(sound.timings[Phase.FIRST_CALL], flags={"memoised": "why"})
    row = lines([eager, replace(sound, timings={**sound.timings, Phase.FIRST_CALL: first})])[jit.id]
    assert "first_call: memoised" in row
    assert "50 [50, 50]" not in row


def test_a_case_that_never_pays_says_so() -> None:
    njit = replace(NUMPY, framework="numba", mode="njit")
    table = lines([measured(NUMPY, steady=1e6), measured(njit, first_call=1e9, compile=1e9, steady=3e6)])
    assert "never" in table[njit.id]
    assert "0.333x" in table[njit.id]


def test_dtypes_are_compared_with_their_own_kind_only() -> None:
    jit = replace(NUMPY, framework="jax", mode="jit", dtype="float64")
    table = lines([measured(NUMPY, steady=2e6), measured(jit, first_call=1e8, compile=4e7, steady=1e6)])
    assert "2x" not in table[jit.id]


def test_derivatives_are_compared_with_their_own_kind_only() -> None:
    jit = replace(NUMPY, framework="jax", mode="jit")
    rows = [
        measured(NUMPY, steady=2e6),
        measured(replace(jit, mode="eager"), steady=3e6),
        measured(replace(jit, derivative=1), first_call=1.01e8, compile=4e7, steady=1e6),
    ]
    assert "2x" not in lines(rows)[replace(jit, derivative=1).id]
    assert "50 [50, 50]" not in lines(rows)[replace(jit, derivative=1).id]
    rows.append(measured(replace(jit, mode="eager", derivative=1), steady=3e6))
    assert "50 [50, 50]" in lines(rows)[replace(jit, derivative=1).id]


def test_skipped_cells_have_no_row_and_failed_ones_their_reason() -> None:
    other = replace(NUMPY, size="S")
    failed = replace(measured(other, Status.KILLED), reason="the process died by SIGKILL")
    skipped = replace(measured(NUMPY, Status.SKIPPED), reason="no such thing")
    table = lines([failed, skipped])
    assert set(table) == {"case", other.id}
    assert "killed: the process died by SIGKILL" in table[other.id]


@pytest.mark.parametrize("width", [True, False])
def test_a_narrow_table_leaves_the_intervals_out(width: bool) -> None:
    assert ("[" in lines([measured(NUMPY, steady=2e6)], width)[NUMPY.id]) is width


@pytest.mark.parametrize("reason", ["ValueError: shapes [n] and [m] differ", "OSError: [/lib/x.so] is not there"])
def test_brackets_in_what_a_program_said_are_shown_as_they_are(reason: str) -> None:
    found = lines([replace(measured(NUMPY, Status.FAILED, steady=1e6), reason=reason)])
    assert f"failed: {reason}" in found[NUMPY.id]
