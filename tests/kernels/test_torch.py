"""PyTorch in its three modes: phases, its own counts, fallbacks, dtypes and derivatives."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from kernels.assignment import Role
from kernels.case import Backend
from kernels.errors import UnavailableError
from kernels.frameworks import frameworks
from kernels.frameworks.torch_inductor import inputs_read, program_text
from kernels.guards import Flag
from kernels.measurement import Status
from kernels.phase import Phase
from kernels.spec import dtype_named, leaves

TORCH = frameworks()["torch"]

needs_torch = pytest.mark.skipif(not TORCH.installed(), reason="torch is not installed; make test EXTRAS=torch")

MODES = ("torch/eager", "torch/compile", "torch/script")


def readings(outcome):
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    return {reading.phase: reading for reading in outcome.readings}


def reasons(outcome, flag):
    assert (outcome.status, outcome.reason) == (Status.OK, None)
    return [finding.reason for finding in outcome.findings if finding.flag is flag]


@pytest.fixture(scope="module")
def steady(run):
    """What a steady process of each case left behind; each is measured once."""
    done = {}

    def steady(kernel, mode, file=None):
        if (kernel, mode, file) not in done:
            done[kernel, mode, file] = run(kernel, mode, file, dtype="float32")
        return done[kernel, mode, file]

    return steady


@pytest.fixture
def adapter():
    made = TORCH(Backend.CPU, "float32")
    yield made
    made.close()


@needs_torch
@pytest.mark.parametrize("mode", MODES)
def test_the_steady_process_gives_the_phases_of_the_mode_on_the_host_and_no_others(steady, mode):
    planned = set(TORCH.phases(mode.partition("/")[2], Backend.CPU))
    elsewhere = {Phase.STARTUP, Phase.FIRST_CALL, Phase.RELOAD}
    assert readings(steady("dense", mode)).keys() == planned - elsewhere


def test_asynchronous_phases_are_those_of_the_gpu():
    for mode in TORCH.MODES:
        gpu, host = TORCH.phases(mode, Backend.GPU), TORCH.phases(mode, Backend.CPU)
        assert set(gpu) - set(host) == {Phase.PIPELINED, Phase.ENQUEUE}


@needs_torch
@pytest.mark.parametrize("mode", MODES)
def test_an_honest_kernel_neither_falls_back_nor_recompiles(steady, mode):
    outcome = steady("dense", mode)
    assert reasons(outcome, Flag.FALLBACK) == reasons(outcome, Flag.RECOMPILED) == []
    assert readings(outcome)[Phase.STEADY].events["compiles"] == 0


@needs_torch
def test_a_call_at_another_size_compiles_one_program(steady):
    events = readings(steady("dense", "torch/compile"))[Phase.RETRACE].events
    assert (events["traces"], events["compiles"], events["cache_hits"]) == (1, 1, 0)


@needs_torch
def test_the_first_call_compiles_one_program_whatever_was_compiled_before(run):
    for _ in range(2):
        events = readings(run("total", "torch/compile", role=Role.FIRST_CALL))[Phase.FIRST_CALL].events
        assert (events["traces"], events["compiles"], events["cache_hits"]) == (1, 1, 0)


@needs_torch
def test_the_second_visit_to_a_cache_is_a_reload_and_the_first_is_none(run, tmp_path):
    first, second = (
        readings(run("total", "torch/compile", role=Role.CACHE, cache_dir=str(tmp_path)))[Phase.RELOAD].events
        for _ in range(2)
    )
    assert (first["cache_hits"], first["cache_misses"]) == (0, 1)
    assert (second["cache_hits"], second["cache_misses"]) == (1, 0)
    assert any(path.is_file() for path in Path(tmp_path).rglob("*"))


@needs_torch
@pytest.mark.parametrize("mode", ["torch/compile", "torch/script"])
def test_programs_are_told_apart_and_are_the_same_in_another_process(run, steady, mode):
    one, other = steady("dense", mode).facts["program_hash"], run("dense", mode, dtype="float32").facts["program_hash"]
    assert one == other != steady("total", mode).facts["program_hash"]


@needs_torch
@pytest.mark.parametrize(("kernel", "file", "form"), [("dense", None, "traced"), ("of_torch", "forms", "scripted")])
def test_a_body_over_the_array_namespace_is_traced_and_a_form_of_its_own_is_scripted(steady, kernel, file, form):
    assert steady(kernel, "torch/script", file).facts["program_form"] == form


@needs_torch
def test_no_time_is_lost_in_scripting_what_the_language_never_has(monkeypatch):
    import torch

    from kernels.frameworks import torch_script
    from kernels.frameworks.framework import Events

    tried = []
    monkeypatch.setattr(torch.jit, "script", tried.append)
    torch_script.program(lambda *args: args[0] + 1, False, (), 0, Events()).call(torch.ones(2))
    assert tried == []


@needs_torch
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [("disabled", "torch.compiler.disable"), ("prints", "print"), ("uncompiled", "compiled nothing"),
     ("recompiles", "recompile limit exceeded")],
)  # fmt: skip
def test_what_torch_compile_leaves_to_the_interpreter_is_fallback(steady, kernel, reason):
    assert reason in "; ".join(reasons(steady(kernel, "torch/compile", "breaks"), Flag.FALLBACK))


@needs_torch
@pytest.mark.parametrize("kernel", ["disabled", "prints"])
def test_in_eager_mode_nothing_falls_back(steady, kernel):
    assert reasons(steady(kernel, "torch/eager", "breaks"), Flag.FALLBACK) == []


@needs_torch
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int32", "bool"])
def test_arrays_come_back_as_they_were_placed_and_share_no_memory(adapter, name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    for shape in ((), (3, 5)):
        x = np.asarray(np.random.default_rng(0).uniform(-2, 2, shape)).astype(dtype_named(name))
        (placed,) = adapter.place((x,))
        back = adapter.host(placed)
        assert (back.dtype, back.shape, adapter.dtype_of(placed)) == (x.dtype, x.shape, name)
        assert back.tobytes() == x.tobytes()
        assert not np.shares_memory(back, x)
        assert adapter.backend_of(placed) == "cpu"


@needs_torch
@pytest.mark.parametrize("order", [1, 2])
def test_autograd_and_torch_func_give_one_derivative(order):
    import torch

    from kernels.frameworks.torch_derived import derived, recorded

    def function(x, w):
        return torch.tanh(x @ w), (x**3).sum()

    x, w, v, u = (torch.rand(4, 4, dtype=torch.float64) for _ in range(4))
    args = (x, w) if order == 1 else (x, w, v, u)
    ours, theirs = derived(function, (0, 1), order)(*args), recorded(function, (0, 1), order)(*args)
    assert all(torch.allclose(a, b) for a, b in zip(leaves(ours), leaves(theirs), strict=True))
    assert not any(leaf.requires_grad for leaf in leaves(ours) + leaves(theirs))


@needs_torch
def test_the_product_of_a_known_hessian():
    import torch

    from kernels.frameworks.torch_derived import derived

    x, v = torch.rand(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    (product,) = derived(lambda x: x**3, (0,), 2)(x, v)
    assert torch.allclose(product, 6 * x * v)


@needs_torch
def test_a_product_by_what_the_objective_is_linear_in_is_zero():
    import torch

    from kernels.frameworks.torch_derived import recorded

    x, y, v, u = (torch.rand(3, dtype=torch.float64) for _ in range(4))
    by_x, by_y = recorded(lambda x, y: (x**3).sum() + y.sum(), (0, 1), 2)(x, y, v, u)
    assert torch.allclose(by_x, 6 * x * v)
    assert torch.equal(by_y, torch.zeros_like(y))
    assert not any(product.any() for product in recorded(lambda x, y: x.sum() + y.sum(), (0, 1), 2)(x, y, v, u))


@needs_torch
def test_a_case_leaves_no_files_behind(adapter, case_of, monkeypatch):
    from kernels.discovery import find

    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        # Set by the adapter; restored after the test.
        monkeypatch.setenv(name, "")
    adapter.program(find("total", None), case_of("total", "torch/compile"))
    folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert folder.is_dir()
    adapter.close()
    assert not folder.exists()


@needs_torch
def test_without_a_compiler_compiled_cases_are_unavailable_and_the_others_are_not(monkeypatch, case_of, tiny):
    from kernels.assignment import Assignment
    from kernels.isolation import Isolation

    monkeypatch.setenv("CXX", "no-such-compiler")
    with Isolation() as isolation:
        ended = {
            mode: isolation.run(Assignment(case_of("total", mode), Role.FIRST_CALL, tiny))
            for mode in ("torch/compile", "torch/eager")
        }
    assert ended["torch/eager"].status is Status.OK
    assert ended["torch/compile"].status is Status.UNAVAILABLE
    assert "C++ compiler" in ended["torch/compile"].reason


@needs_torch
def test_without_headers_of_python_a_compiled_case_is_unavailable(monkeypatch, tmp_path, case_of, adapter):
    from kernels.discovery import find

    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CPATH", "CPLUS_INCLUDE_PATH"):
        monkeypatch.setenv(name, "")
    total, case = find("total", None), case_of("total", "torch/compile")
    monkeypatch.setattr(sysconfig, "get_path", lambda *_, **__: str(tmp_path))
    with pytest.raises(UnavailableError, match=r"has no Python\.h: install them \(Debian: libpython3-dev\)"):
        adapter.program(total, case)
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CPATH", str(tmp_path))
    adapter.program(total, case)


MODULE = """\
# AOT ID: ['7_inference']
class Runner:
    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        args.clear()
        assert_size_stride(arg0_1, (4,), (1,), 'input')
        assert_size_stride(arg1_1, (4,), (1,), 'input')
        buf0 = empty_strided_cpu((4,), (1,), torch.float32)
        cpp_fused_sin_0(arg0_1, arg2_1, buf0)
        del arg0_1
        del arg1_1
        return (buf0, )

runner = Runner(partitions=[])


def get_args():
    return [arg1_1, arg1_1]
"""


def test_the_inputs_that_a_program_reads_are_counted():
    assert inputs_read(MODULE) == 2
    assert inputs_read(MODULE.replace("arg0_1, arg1_1, arg2_1 = args\n        ", "").replace("arg", "x")) is None
    assert inputs_read(MODULE.replace("        arg0_1, arg1_1, arg2_1 = args\n", "")) == 0


def test_a_programs_number_is_no_part_of_it():
    assert program_text(MODULE) == program_text(MODULE.replace("7_inference", "0_inference"))
    assert "get_args" not in program_text(MODULE)
