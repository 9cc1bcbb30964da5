"""The phases that are timed, each apart from the others."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What one timing covers; a phase that a framework cannot separate is absent."""

    STARTUP = "startup"
    TRANSFER = "transfer"
    TRACE = "trace"
    LOWER = "lower"
    COMPILE = "compile"
    FIRST_CALL = "first_call"
    RELOAD = "reload"
    RETRACE = "retrace"
    STEADY = "steady"
    PIPELINED = "pipelined"
    ENQUEUE = "enqueue"
    DEVICE = "device"


REPEATED = frozenset({Phase.STEADY, Phase.PIPELINED, Phase.ENQUEUE, Phase.DEVICE})
"""Phases that a process samples many times; the others happen once per process."""
