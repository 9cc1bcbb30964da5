"""The fingerprint of a machine holds what stays: a driver that is updated and a clock that jitters are none of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels.machine import Environment, Machine


def driver_tool(folder: Path, text: str) -> None:
    """Put a tool of the driver's name before all others, which tells of devices that are not here."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{text}'\n")
    tool.chmod(0o755)


def test_a_machine_has_one_fingerprint() -> None:
    assert Machine.here() == Machine.here()
    assert Machine.here().fingerprint == Machine.here().fingerprint


def test_an_updated_driver_is_of_the_environment_and_makes_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    driver_tool(tmp_path, "NVIDIA H200, 560.35.03\\nNVIDIA H200, 560.35.03\\n")
    before, driver = Machine.here(), Environment.here().driver
    driver_tool(tmp_path, "NVIDIA H200, 570.86.15\\nNVIDIA H200, 570.86.15\\n")
    assert before.accelerators == ("NVIDIA H200", "NVIDIA H200")
    assert Machine.here().fingerprint == before.fingerprint
    assert (driver, Environment.here().driver) == ("560.35.03", "570.86.15")
    driver_tool(tmp_path, "NVIDIA A100-SXM4-80GB, 570.86.15\\n")
    assert Machine.here().fingerprint != before.fingerprint


def test_variables_that_bear_on_a_timing_are_recorded_and_credentials_of_terraform_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TF_XLA_FLAGS", "TF_NUM_INTEROP_THREADS", "TF_VAR_password", "TF_TOKEN_example_com", "TF_CLI_ARGS"):
        monkeypatch.setenv(name, "1")
    recorded = {name for name in Environment.here().variables if name.startswith("TF_")}
    assert recorded >= {"TF_XLA_FLAGS", "TF_NUM_INTEROP_THREADS"}
    assert not recorded & {"TF_VAR_password", "TF_TOKEN_example_com", "TF_CLI_ARGS"}
