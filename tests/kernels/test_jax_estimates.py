"""What a plugin does not tell of a program is absent: no failure, and no number that it never gave."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernels.frameworks.jax import Jax, _memory, _Stages

jax = pytest.importorskip("jax")

PARTS = {
    "argument_size_in_bytes": 8,
    "output_size_in_bytes": 4,
    "temp_size_in_bytes": 2,
    "generated_code_size_in_bytes": 0,
}


@pytest.fixture
def compiled():
    """Stages that have been gone through, of a program that the test may spoil."""
    stages = _Stages(jax.jit(lambda x: x * 2))
    args = (jax.numpy.ones(8, "float32"),)
    for stage in (stages.trace, stages.lower, stages.compile):
        stage(args)
    return stages


def test_the_host_tells_all(compiled):
    found = compiled.describe()
    assert found.text
    assert found.operations > 0
    assert found.nbytes > 0
    assert found.peak_nbytes >= 64


@pytest.mark.parametrize(
    "error", [NotImplementedError("no"), jax.errors.JaxRuntimeError("UNIMPLEMENTED: no"), RuntimeError("no")]
)
def test_a_plugin_that_tells_nothing_leaves_the_program_without_estimates(compiled, error):
    def refuse():
        raise error

    compiled._compiled = SimpleNamespace(as_text=refuse, cost_analysis=refuse, memory_analysis=refuse)
    found = compiled.describe()
    assert (found.text, found.parameters, found.operations, found.nbytes, found.peak_nbytes) == (None,) * 5


@pytest.mark.parametrize("name", PARTS)
def test_memory_with_an_unknown_part_is_unknown(name):
    assert _memory(SimpleNamespace(**PARTS)) == 14
    assert _memory(SimpleNamespace(**PARTS | {name: -1})) is None
    assert _memory(SimpleNamespace(**{part: size for part, size in PARTS.items() if part != name})) is None
    assert _memory(None) is None


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("float64", True), ("int64", True), ("uint64", True), ("complex128", True), ("complex64", False), ("int8", False)],
)
def test_wide_numbers_are_on_for_wide_dtypes_alone(dtype, wide):
    from kernels.case import Backend

    try:
        assert Jax(Backend.CPU, dtype).facts()["x64"] is wide
    finally:
        jax.config.update("jax_enable_x64", False)
