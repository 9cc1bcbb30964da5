"""Parameters that are small and exactly JSON: whatever else Prefect would turn into null or text, without a word."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from kernels.errors import UsageError

LIMIT_NBYTES = 256 * 1024
"""Bytes of all parameters together, as JSON; a server takes twice as many, and keeps them with every flow run."""

_INTEGERS = range(-(2**63), 2**63)


def exact(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """See that a flow's parameters arrive as they are sent.

    Args:
        parameters: name to value; models of pydantic are taken as what they hold.

    Returns:
        The same, of mappings, lists, text, numbers, booleans and null alone.

    Raises:
        UsageError: a value is none of these, as a set, a NumPy number or NaN; the message has its path. Or all of them
            are too large.
    """
    found = {name: _value(value, name) for name, value in parameters.items()}
    nbytes = {name: len(json.dumps(value)) for name, value in found.items()}
    if sum(nbytes.values()) > LIMIT_NBYTES:
        largest = max(nbytes, key=lambda name: nbytes[name])
        raise UsageError(
            f"{largest}: {nbytes[largest] / 1024:.0f} kB, and all parameters may have {LIMIT_NBYTES // 1024}; "
            "name a matrix that the workers have, or write fewer values"
        )
    return found


def _value(value: object, path: str) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump()
    # A NumPy number may be a subclass of Python's own, and goes another way than that through JSON.
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        if value not in _INTEGERS:
            raise UsageError(f"{path}: {value} has more than 64 bits; give a smaller number")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise UsageError(f"{path}: {value} is no number in JSON; give a finite one, or leave it out")
        return value
    if type(value) is str or isinstance(value, StrEnum):
        return _text(str(value), path)
    if isinstance(value, Mapping):
        return {_key(key, path): _value(each, f"{path}.{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [_value(each, f"{path}[{number}]") for number, each in enumerate(value)]
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise UsageError(f"{path}: {value!r:.80} is a {name}; give text, a number, true, false, a list or a mapping")


def _key(key: object, path: str) -> str:
    if type(key) is not str:
        raise UsageError(f"{path}: the key {key!r:.80} is a {type(key).__name__}; keys are text")
    return _text(key, path)


def _text(text: str, path: str) -> str:
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise UsageError(f"{path}: {text!r:.80} has a character that is none in JSON; leave it out")
    return text
