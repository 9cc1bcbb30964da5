"""Matrices from plain data and TOML files: what is malformed is named with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kernels.case import AXES, DERIVATIVES, Exclusion, Matrix, backend
from kernels.discovery import suite
from kernels.errors import UsageError, unknown
from kernels.frameworks import modes


def parse(value: Mapping[str, Any], name: str, where: str) -> Matrix:
    """Read a matrix from plain data, as a TOML file or a flow's parameter gives it.

    Args:
        value: keys as the fields of Matrix; ``exclude`` a list of tables with a reason. "all" for kernels or
            frameworks takes every one there is.
        name: the matrix's name.
        where: the file, for messages.

    Returns:
        The matrix.

    Raises:
        UsageError: a key is unknown, missing, or of the wrong type.
    """
    known = [f.name for f in fields(Matrix) if f.name != "name"] + ["title"]
    for key in value:
        if key not in known:
            raise unknown("key", key, known, where)
    for key in ("kernels", "frameworks"):
        if key not in value:
            raise UsageError(f'{where}: the key {key} is missing; give a list such as {key} = [...], or "all"')
    axes: dict[str, Any] = {}
    for key, everything in (("kernels", suite), ("frameworks", modes), ("sizes", None), ("dtypes", None)):
        if key in value and value[key] == "all" and everything:
            axes[key] = tuple(everything())
        elif key in value:
            axes[key] = _strings(value[key], key, where)
    if "backends" in value:
        axes["backends"] = tuple(backend(b, where) for b in _strings(value["backends"], "backends", where))
    if "derivatives" in value:
        derivatives = value["derivatives"]
        if not isinstance(derivatives, list | tuple) or any(
            isinstance(d, bool) or not isinstance(d, int) or d not in DERIVATIVES for d in derivatives
        ):
            raise UsageError(f"{where}: derivatives must be a list of 0, 1 and 2, got {derivatives!r}")
        axes["derivatives"] = tuple(dict.fromkeys(derivatives))
    excluded = value.get("exclude", ())
    if not isinstance(excluded, list | tuple) or not all(isinstance(entry, Mapping) for entry in excluded):
        raise UsageError(f"{where}: exclude must be a list of tables, as [[exclude]] with a reason")
    exclude = tuple(_exclusion(entry, where) for entry in excluded)
    sampling = value.get("sampling", {})
    if not isinstance(sampling, Mapping):
        raise UsageError(f"{where}: sampling must be a table, got {sampling!r}")
    return Matrix(name=name, exclude=exclude, sampling=dict(sampling), **axes)


def read(path: Path) -> Matrix:
    """Read a matrix file.

    Args:
        path: the TOML file; its stem is the matrix's name.

    Returns:
        The matrix.

    Raises:
        UsageError: the file cannot be read, is not TOML, or is not a matrix.
    """
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give the path of a matrix file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from error
    return parse(value, path.stem, str(path))


def _strings(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageError(f'{where}: {key} must be a list of strings, such as {key} = ["..."], got {value!r}')
    return tuple(dict.fromkeys(value))


def _exclusion(entry: Mapping[str, Any], where: str) -> Exclusion:
    place = f"{where}, [[exclude]]"
    if not isinstance(entry.get("reason"), str) or not entry["reason"]:
        raise UsageError(f'{place}: every exclusion needs a reason = "..." in words')
    match: dict[str, tuple[str, ...]] = {}
    for key, value in entry.items():
        if key == "reason":
            continue
        if key not in AXES:
            raise unknown("axis", key, AXES, place)
        listed = [value] if isinstance(value, str | int) else value
        if key == "derivative" and isinstance(listed, list | tuple):
            # Numbers in the file, as in derivatives = [0, 1]; names beside the other axes.
            listed = [str(order) if isinstance(order, int) else order for order in listed]
        match[key] = _strings(listed, key, place)
    if not match:
        raise UsageError(f"{place}: name at least one axis of {', '.join(AXES)}")
    return Exclusion(entry["reason"], match)
