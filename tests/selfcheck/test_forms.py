"""The kernels of two forms: each pair is one program, so that what is compared is the form alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from flows.findings_costs import DECORATED, FUNCTION

ROOT = Path(__file__).resolve().parents[2]


def test_both_forms_of_a_kernel_are_measured_and_compile_to_the_same_program() -> None:
    words = ["--kernel", "selfcheck/own/forms.py", "--framework", "jax/jit", "--size", "S", "--dtype", "float32"]
    done = subprocess.run(
        [sys.executable, "-m", "kernels", *words, "--rounds", "1", "--budget", "0.02"],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {row["case"]["kernel"]: row for row in map(json.loads, done.stdout.splitlines())}
    stems = {name.removesuffix(DECORATED) for name in found if name.endswith(DECORATED)}
    assert set(found) == {stem + form for stem in stems for form in (DECORATED, FUNCTION)}
    assert len(stems) == 2
    for stem in stems:
        decorated, function = (found[stem + form] for form in (DECORATED, FUNCTION))
        assert decorated["status"] == function["status"] == "ok"
        assert decorated["facts"]["program_hash"] == function["facts"]["program_hash"]
        assert {"trace", "lower", "compile", "first_call", "steady"} <= {*decorated["timings"]} & {*function["timings"]}
