"""Kernels that torch.compile leaves to the interpreter, whole or in part, or compiles again and again."""

from __future__ import annotations

from dataclasses import replace

from kernels.suite import sincos


def both(x):
    import torch

    return torch.sin(x) + torch.cos(x)


def disabled():
    import torch

    inner = torch.compiler.disable(both)
    return lambda x: inner(x) * 1


def prints():
    def call(x):
        y = both(x)
        print("computed")
        return y * 1

    return call


def uncompiled():
    import torch

    torch._dynamo.config.disable = True
    return both


def recompiles():
    import torch

    # The default of 8 is more than a slow machine calls it in its loops.
    torch._dynamo.config.recompile_limit = 2
    calls = [0]

    def call(x):
        calls[0] += 1
        return both(x) + 0.0 * calls[0]

    return call


def cheat(name, builder):
    return replace(sincos.KERNEL, name=name, array=sincos.sincos, implementations={"torch": builder})


DISABLED = cheat("disabled", disabled)
PRINTS = cheat("prints", prints)
UNCOMPILED = cheat("uncompiled", uncompiled)
RECOMPILES = cheat("recompiles", recompiles)
