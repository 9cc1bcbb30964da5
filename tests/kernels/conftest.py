"""What the tests of the kernels room share: kernels that cheat or fail, and a short way to measure them."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy.random.mtrand
import pytest
from hypothesis import settings

from kernels.assignment import Assignment, Role
from kernels.case import Case
from kernels.discovery import find
from kernels.errors import UnavailableError
from kernels.floors import floor_ns
from kernels.isolation import Isolation
from kernels.measurement import Measurement, Outcome, merge
from kernels.memory import place, sweep
from kernels.timing import Sampling

CHEATS = Path(__file__).parent / "cheats"

# A busy machine is no reason to fail.
settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.load_profile("unhurried")

TINY = Sampling(rounds=1, budget_s=0.02, min_sample_ms=1.0, warmup_ms=2.0, timeout_s=60.0)

Run = Callable[..., Outcome]
Measure = Callable[..., Measurement]


@pytest.fixture(scope="session", autouse=True)
def no_group_left() -> Iterator[None]:
    """A parent killed together with its fork server leaves a memory group to the next start: here, to this."""
    yield
    with contextlib.suppress(OSError, UnavailableError):
        sweep(place().parent)


@pytest.fixture(autouse=True)
def module_path() -> Iterator[None]:
    """A user's file that is loaded in this process adds its folder to the module path: for no other test."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(scope="module")
def isolation() -> Iterator[Isolation]:
    """One set of fork servers for a module's tests: a case that harms the next one is seen by the next one."""
    with Isolation() as isolation:
        yield isolation


@pytest.fixture
def jax_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """``jax_plugin(source)`` makes JAX load a plugin of that source in every process that starts from here on."""

    def jax_plugin(source: str) -> None:
        package = tmp_path / "jax_plugins" / "of_a_test"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return jax_plugin


IMPOSTOR = """
def initialize():
    from jax._src import hardware_utils, xla_bridge
    from jax._src.lib import xla_client

    hardware_utils.has_visible_nvidia_gpu = lambda: True
    xla_bridge._backend_factories.pop("cuda", None)
    xla_bridge.register_backend_factory("cuda", xla_client.make_cpu_client, priority=300)
"""


@pytest.fixture
def impostor(jax_plugin: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU of JAX that is really the host, with a driver that loads: any library will do, none of it is called."""
    jax_plugin(IMPOSTOR)
    shutil.copy(numpy.random.mtrand.__file__, tmp_path / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


@pytest.fixture(scope="session")
def cheats() -> Path:
    """The folder of kernels that cheat or fail."""
    return CHEATS


@pytest.fixture(scope="session")
def tiny() -> Sampling:
    """The smallest sampling that still goes through every step."""
    return TINY


@pytest.fixture(scope="session", name="case_of")
def case_of_fixture() -> Callable[..., Case]:
    """``case_of(kernel, mode, file=…, size=…, dtype=…)`` gives a case of a cheating kernel, or of the suite."""
    return case_of


def case_of(kernel: str, mode: str, file: str | None = None, **axes: str) -> Case:
    """Make a case of a kernel in ``cheats/<file>.py``, or of the suite; its first size and last dtype by default."""
    source = str(CHEATS / f"{file}.py") if file else None
    found = find(kernel, source)
    framework, _, name = mode.partition("/")
    size, dtype = axes.pop("size", next(iter(found.sizes))), axes.pop("dtype", found.dtypes[-1])
    return Case(kernel, framework, name, size, dtype, source=source)


@pytest.fixture(scope="module")
def run(isolation: Isolation) -> Run:
    """``run(kernel, mode, file=…, role=…, size=…, dtype=…, **settings)`` gives what one process left behind."""

    def run(
        kernel: str,
        mode: str,
        file: str | None = None,
        role: Role = Role.STEADY,
        cache_dir: str | None = None,
        size: str | None = None,
        dtype: str | None = None,
        derivative: int = 0,
        **settings: float,
    ) -> Outcome:
        axes = {name: value for name, value in (("size", size), ("dtype", dtype)) if value}
        case = replace(case_of(kernel, mode, file, **axes), derivative=derivative)
        return isolation.run(Assignment(case, role, replace(TINY, **settings), 0, cache_dir))  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="module")
def measure(run: Run) -> Measure:
    """As ``run``, for a measurement of the one process; ``roofline`` is as ``kernels.floors`` describes it."""

    def measure(
        kernel: str,
        mode: str,
        file: str | None = None,
        roofline: Mapping[str, float] | None = None,
        size: str | None = None,
        dtype: str | None = None,
        **settings: float,
    ) -> Measurement:
        axes = {name: value for name, value in (("size", size), ("dtype", dtype)) if value}
        case = case_of(kernel, mode, file, **axes)
        outcome = run(kernel, mode, file, size=size, dtype=dtype, **settings)
        return merge(case, [outcome], floor_ns=floor_ns(case, roofline or {}))

    return measure
