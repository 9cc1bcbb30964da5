"""What of the user's environment reaches a case's process, and what does not."""

from __future__ import annotations

import pytest

from kernels.assignment import Assignment, Role
from kernels.isolation import Isolation
from kernels.measurement import Status
from kernels.variables import environment


def test_the_users_own_settings_do_not_reach_a_case(monkeypatch):
    names = ("JAX_ENABLE_X64", "JAX_COMPILATION_CACHE_DIR", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "OPENBLAS_CORETYPE")
    for name in names:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOME", "/somewhere")
    variables = environment(threads=2)
    assert not set(names) & variables.keys()
    assert variables["HOME"] == "/somewhere"
    assert variables["OMP_NUM_THREADS"] == variables["NUMBA_NUM_THREADS"] == "2"


def test_one_thread_is_said_to_every_library():
    variables = environment(threads=1)
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
    assert "--xla_cpu_multi_thread_eigen=false" in variables["XLA_FLAGS"]


SECRETS = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "PREFECT_API_KEY",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_API_DATABASE_CONNECTION_URL",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "SOME_SERVICE_API_KEY",
    "HF_TOKEN",
    "DB_PASSWORD",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_workers_secrets_do_not_reach_a_case(name, monkeypatch):
    monkeypatch.setenv(name, "hush")
    assert name not in environment(threads=1)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "HOME", "JITMATRIX_IMAGE", "SECRETARY", "KEYBOARD"])
def test_what_only_resembles_a_secret_does(name, monkeypatch):
    monkeypatch.setenv(name, "told")
    assert environment(threads=1)[name] == "told"


def test_a_kernel_finds_no_secret_in_its_process_nor_in_its_fork_server(case_of, tiny, monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "hush")
    with Isolation() as isolation:
        outcome = isolation.run(Assignment(case_of("tells_variables", "python/plain", "faults"), Role.STEADY, tiny))
    assert outcome.status is Status.OK, outcome.reason
    assert "PATH=" in outcome.output
    assert "hush" not in outcome.output
