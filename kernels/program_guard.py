"""Does the compiled program do the work that the kernel declares, and where and in which dtype does it do it?"""

from __future__ import annotations

import re

from kernels.frameworks.framework import Compiled
from kernels.guards import Finding, Flag
from kernels.spec import Work

LEAST_WORK_SHARE = 0.25
"""A compiled program may do this share of the declared operations; honest rewriting stays above it."""

_CAST = r"\btorch\.to\((?:[^(),]|\((?:[^()]|\([^()]*\))*\))+, (?:{0})\b|\bdtype=(?:{0})\b"
"""TorchScript's code writes dtypes as numbers; only a cast or a factory tells them from other numbers."""

_HALF = "|".join((
    r"\b(?:f16|bf16|f8\w+)\[",
    r"\bDT_(?:BFLOAT16|HALF|FLOAT8\w*)\b",
    r"\b(?:at|c10)::(?:BFloat16|Half|Float8\w*)\b|\b(?:half|bfloat16)\*|\btl\.b?float16\b",
    r"\btorch\.(?:bfloat16|float16|half|float8\w*)\b",
    _CAST.format("5|15"),
))  # fmt: skip

_SINGLE = "|".join((
    r"\bf32\[|fptrunc double",
    r"\btorch\.float32\b",
    _CAST.format("6"),
))  # fmt: skip

NARROWER = {"float64": re.compile(f"{_SINGLE}|{_HALF}"), "float32": re.compile(_HALF)}
"""Dtype to what its program's text holds when it computes in a narrower one.

The texts are of HLO and LLVM, of inductor's modules in C++ and Triton, of TorchScript's code and TensorFlow's graphs.
In the last, float32 is no sign: honest float64 gradients hold counts in it.
Modes that run one operation after another have no program: what they compute in a narrower dtype is not seen.
"""

WRAPPERS = re.compile(r"^define [^\n]*@\"?(?:_ZN7cpython|cfunc\.).*?^}", re.MULTILINE | re.DOTALL)
"""Functions by which the interpreter and C call what Numba compiled; they are no part of it."""


def judge(compiled: Compiled, count: int, work: Work, dtype: str) -> list[Finding]:
    """Judge a compiled program by its text and its own estimates.

    A loop's body is counted once and a library's call not at all, so dropped work is seen in straight programs alone;
    for the others there is ``guards.roofline``. Where a framework tells nothing of its programs, nothing is found here.

    Args:
        compiled: what is known of the program.
        count: the number of inputs of the case.
        work: the declared least work.
        dtype: the case's dtype.

    Returns:
        Findings: constant inputs, dropped work, calls back into the interpreter, a narrower dtype.
    """
    found = []
    text = WRAPPERS.sub("", compiled.text or "")
    if compiled.parameters == 0:
        found.append(Finding(Flag.CONSTANT_INPUTS, "the compiled program reads no input: its work was folded away"))
    elif compiled.parameters is not None and compiled.parameters < count:
        found.append(Finding(Flag.DEAD_WORK, f"the compiled program reads {compiled.parameters} of {count} inputs"))
    done, least = compiled.operations, LEAST_WORK_SHARE * work.operations
    # One declared operation stands for none: it is the least that can be declared, for what only moves data.
    if straight(text) and done is not None and work.operations > 1 and done < least:
        reason = f"the compiled program does {done:.3g} operations, the kernel declares {work.operations:.3g}"
        found.append(Finding(Flag.DEAD_WORK, reason))
    if re.search(r"python_[cg]pu_callback|host_callback|call [^\n]*@PyObject_Call", text):
        found.append(Finding(Flag.FALLBACK, "the compiled program calls back into Python"))
    narrower = NARROWER[dtype].search(text) if dtype in NARROWER else None
    if narrower:
        name = narrower.group().rstrip("[*")
        found.append(Finding(Flag.FALLBACK, f"the compiled program computes in a narrower dtype than {dtype}: {name}"))
    return found


def straight(text: str) -> bool:
    """Tell whether a program's operations are all in its text.

    Args:
        text: of HLO or LLVM.

    Returns:
        False where a loop of it, or a library that it calls, does work that the text does not show.
    """
    return not any(mark in text for mark in (" while(", " custom-call("))
