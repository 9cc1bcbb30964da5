"""A compiled program's text tells programs apart, and nothing else: no folder of a checkout, no line of the harness."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels.frameworks.jax import program_text

ROOT = Path(__file__).resolve().parents[2]

TABLES = """\
HloModule jit_double, entry_computation_layout={(f32[])->f32[]}

FileNames
1 "/home/a/kernels/forkserver.py"
2 "/home/a/kernels/suite/double.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=245 end_line=245 column=4 end_column=39}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY %main.1 (x.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0), metadata={op_name="x"}
  ROOT %mul = f32[] multiply(%x.1, %x.1), metadata={op_name="jit(double)/mul" stack_frame_id=11}
}
"""

PLACES = """\
HloModule jit_double, entry_computation_layout={(f32[])->f32[]}

ENTRY %main.1 (x.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0), metadata={op_name="x"}
  ROOT %mul = f32[] multiply(%x.1, %x.1), metadata={op_name="jit(double)/mul" source_file="/a/b.py" source_line=14}
}
"""

PROGRAM = """\
ENTRY %main.1 (x.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0), metadata={op_name="x"}
  ROOT %mul = f32[] multiply(%x.1, %x.1), metadata={op_name="jit(double)/mul"}
}
"""


@pytest.mark.parametrize("text", [TABLES, PLACES], ids=["tables", "in each instruction"])
def test_places_go_and_the_program_stays(text):
    head, _, program = program_text(text).partition("ENTRY")
    assert head.strip() == "HloModule jit_double, entry_computation_layout={(f32[])->f32[]}"
    assert "ENTRY" + program == PROGRAM


def test_one_program_compiled_from_two_folders_has_one_text(tmp_path):
    code = "import jax\nfrom kernels.frameworks.jax import program_text\n{}def f(x):\n    return jax.numpy.sin(x) * 2\n"
    code += "print(program_text(jax.jit(f).lower(1.0).compile().as_text()))"
    texts = []
    for folder, blank in (("here", ""), ("there", "\n\n\n")):
        file = tmp_path / folder / "kernel.py"
        file.parent.mkdir()
        file.write_text(code.format(blank))
        environment = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "PATH": ""}
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment, check=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert "ENTRY" in texts[0] and str(tmp_path) not in texts[0]
