"""TorchScript: a kernel's own form is scripted where its language allows that; all else is traced."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from kernels.errors import UnavailableError
from kernels.frameworks.framework import Compiled, Events, Program
from kernels.frameworks.torch_derived import recorded
from kernels.phase import Phase
from kernels.spec import Function


def program(function: Function, own: bool, positions: tuple[int, ...], order: int, events: Events) -> Program:
    """Make a kernel ready: it is scripted or traced by its stage, or by its first call.

    The optimiser profiles the first call and specialises in the second: it has no stage, and warm-up covers it.

    Args:
        function: the kernel; one that is scripted already is taken as it is.
        own: whether it is a form for PyTorch; the language has no body over the array namespace, which is traced.
        positions: of the arguments by which it is differentiated.
        order: of the derivative; it is taken around the scripted function.
        events: where traces are counted.

    Returns:
        The program.

    Raises:
        UnavailableError: this PyTorch has no TorchScript.
    """
    import torch

    if not hasattr(torch.jit, "script") or not hasattr(torch.jit, "trace"):
        raise UnavailableError(f"torch {torch.__version__} has no TorchScript")
    scripts: list[Any] = []
    forms: list[str] = []

    def script(args: tuple[Any, ...]) -> object:
        given = args[: len(args) - len(positions)] if order == 2 else args
        scripted, form = _scripted(function, own, given)
        scripts.append(scripted)
        forms.append(form)
        events.traces += 1
        made.call = recorded(scripts[0], positions, order) if order else scripts[0]
        return scripts[0]

    def first(*args: Any) -> Any:
        script(args)
        return made.call(*args)

    made = Program(first, ((Phase.TRACE, script),), lambda: _describe(scripts[0], forms[0]) if scripts else None)
    return made


def _scripted(function: Any, own: bool, args: tuple[Any, ...]) -> tuple[Any, str]:
    """Give the program, and how it was made."""
    import torch

    if isinstance(function, torch.jit.ScriptFunction | torch.jit.ScriptModule):
        return function, "given"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        # What its language lacks is told by errors of many types, by the parser, the resolver and the compiler.
        with contextlib.suppress(Exception):
            if own:
                return torch.jit.script(function), "scripted"
        # The check of a trace would call the kernel three times more; the harness has a check of its own. Copies,
        # since a kernel may consume what it is traced with.
        return torch.jit.trace(function, tuple(x.clone() for x in args), check_trace=False), "traced"


def _describe(script: Any, form: str) -> Compiled:
    read = sum(bool(value.uses()) for value in script.graph.inputs())
    return Compiled(text=script.code, parameters=read, form=form)
