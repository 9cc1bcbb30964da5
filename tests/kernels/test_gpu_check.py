"""The check of a GPU: its table, its rows, and its one line where there is no GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import gpu_check, roofline
from kernels.case import Backend, Case, Plan
from kernels.discovery import suite
from kernels.frameworks import frameworks
from kernels.measurement import Measurement, Status, Timing
from kernels.phase import Phase
from kernels.selection import Filters, everything, select
from kernels.timing import Sampling

TINY = Sampling(rounds=1, budget_s=0.01, min_sample_ms=0.5, warmup_ms=1.0)


def timing(phase, ns, flags=None):
    return Timing(phase, ((ns, ns),), (1,), {}, None, flags or {})


CASE = Case("dense", "jax", "jit", "L", "float32", backend=Backend.GPU)


def row(status=Status.OK, reason=None, facts=None, flags=None, **times):
    timings = {Phase(name): timing(Phase(name), ns) for name, ns in times.items()}
    return Measurement(CASE, status, reason, (), timings, flags or {}, facts or {}, 1)


def test_a_row_shows_its_phases_the_busy_share_and_the_share_of_the_roofline():
    text = gpu_check.table(
        [
            row(
                compile=210_000_000,
                first_call=300_000_000,
                steady=40_000,
                device=10_000,
                facts={"roofline_share": 0.125},
            )
        ]
    )

    heading, line = text.splitlines()
    assert heading.split()[:3] == ["case", "status", "compile"]
    assert line.split("  ")[0] == "dense-jax-jit-L-float32-gpu"
    for cell in ("ok", "210 ms", "300 ms", "40 µs", "10 µs", "25%", "12.5%"):
        assert cell in line


def test_an_absent_device_time_is_a_dash_and_its_reason_stands_below():
    text = gpu_check.table([row(steady=40_000, facts={"device_absent": "the profile holds no plane of a device"})])

    assert text.splitlines()[1].split()[-4:] == ["-", "-", "-", "-"]
    assert text.splitlines()[2] == "    the profile holds no plane of a device"


def test_reasons_and_flags_stand_in_words_below_their_own_row():
    rows = [
        row(Status.WRONG, "output 0 is off in 3 of 4 values"),
        row(steady=1_000, flags={"dead_work": "faster than the machine can be"}),
    ]

    lines = gpu_check.table(rows).splitlines()

    assert lines[2].strip() == "output 0 is off in 3 of 4 values"
    assert "dead_work" in lines[3]
    assert lines[4].strip() == "faster than the machine can be"


def test_the_largest_size_of_every_kernel_is_checked_in_every_mode_and_dtype():
    plan = gpu_check.largest(select(everything(), Filters(framework=("jax",), backend=("gpu",))))

    assert {case.kernel for case in plan.cases} <= set(suite())
    assert {(case.kernel, case.size) for case in plan.cases} == {
        (case.kernel, list(suite()[case.kernel].sizes)[-1]) for case in plan.cases
    }
    assert {case.mode for case in plan.cases} == {"eager", "jit"}


def test_rows_are_written_and_the_table_is_printed(tmp_path, capsys):
    plan = select(everything(), Filters(kernel=("double",), framework=("numpy",)))
    file = tmp_path / "deep" / "rows.jsonl"

    status = gpu_check.check(plan, file, TINY)

    rows = [json.loads(line) for line in file.read_text().splitlines()]
    out = capsys.readouterr().out
    assert status == 0
    assert len(rows) == len(plan.cases)
    assert all(case.id in out for case in plan.cases)
    assert f"planned {len(rows)} = ok {len(rows)} + failed 0 + skipped 0" in out


def test_cases_that_the_time_limit_cuts_off_are_rows_and_fail_the_check(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gpu_check, "LIMIT_S", 0.0)
    plan = select(everything(), Filters(kernel=("double",), framework=("numpy",)))

    status = gpu_check.check(plan, tmp_path / "rows.jsonl", TINY)

    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert status == 1
    assert len(rows) == len(plan.cases)
    assert "skipped" in {row["status"] for row in rows}
    assert "time was over" in capsys.readouterr().out


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_without_a_gpu_it_is_one_line_and_status_2_and_nothing_is_written(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"

    status = gpu_check.main([str(file)])

    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("jitmatrix: no GPU to check: jax ")
    assert not file.exists()


def test_without_jax_it_names_the_line_that_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(frameworks()["jax"], "MODULE", "a_module_that_nobody_has")

    assert gpu_check.main([str(tmp_path / "rows.jsonl")]) == 2
    assert "jax is not installed; pip install jax" in capsys.readouterr().err


def test_two_files_are_one_too_many(capsys):
    assert gpu_check.main(["a", "b"]) == 2
    assert "give one file" in capsys.readouterr().err


def test_an_empty_plan_is_no_success(tmp_path, capsys):
    assert gpu_check.check(Plan((), ()), tmp_path / "rows.jsonl", TINY) == 1


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(steady=1, device=1), True),
        (row(steady=1, device=1, flags={"noisy": "why"}), True),
        (row(steady=1, device=1, flags={"fallback": "why"}), False),
        (row(steady=1), False),
        (row(Status.WRONG, "why", steady=1, device=1), False),
        (row(Status.SKIPPED, "why"), False),
    ],
)
def test_a_row_is_sound_when_it_is_ok_on_the_device_and_its_device_time_was_read(one, expected):
    assert gpu_check.sound(replace(one, planned=(Phase.STEADY, Phase.DEVICE))) is expected


def test_on_the_host_no_device_time_is_asked_for():
    assert gpu_check.sound(replace(row(steady=1), planned=(Phase.STEADY,)))


@pytest.mark.skipif(not frameworks()["jax"].installed(), reason="jax is not installed")
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_gpu_that_is_really_the_host_does_not_pass_the_check(impostor, tmp_path, capsys, monkeypatch):
    # Sized for an accelerator: on the host it takes minutes.
    monkeypatch.setattr(roofline, "measure", lambda backend, threads: {})
    plan = select(everything(), Filters(("double",), ("jax/jit",), (), ("float32",), ("gpu",)))

    gpu_check.probe(plan.cases[0])
    status = gpu_check.check(Plan(plan.cases, ()), tmp_path / "rows.jsonl", TINY)

    out = capsys.readouterr().out
    assert status == 1
    assert "outputs live on cpu, the case says gpu" in out
    assert "the profile holds no plane of a device" in out
    assert "not sound: double-jax-jit-S-float32-gpu" in out
