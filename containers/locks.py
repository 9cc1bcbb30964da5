"""Locks: every distribution that an image installs, with its hashes; made from pyproject.toml, and held against it.

Run as ``python -m containers.locks`` they are made anew, which ``make lock`` does; it needs uv.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from containers.variant import FOLDER, Variant
from kernels.errors import UsageError
from kernels.variables import ROOT

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("image",),
    "cpu-tensorflow": ("image", "tensorflow"),
    "cpu-torch": ("image", "torch"),
    "gpu": ("image", "gpu"),
    "gpu-torch": ("image", "gpu", "torch"),
    "tpu": ("image", "tpu"),
    "sbom": ("sbom",),
}
"""Lock to the extras of pyproject.toml that it holds besides the dependencies; ``sbom`` holds its extra alone."""

TORCH_CPU_VERSION = "2.13.0"
"""The PyTorch of cpu images, whose wheels without CUDA stand in PyTorch's index and not on PyPI."""

TORCH_CPU_SHA256 = (
    "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",  # Python 3.11, x86-64
    "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",  # Python 3.12, x86-64
    "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",  # Python 3.13, x86-64
)
"""Of those wheels, as https://download.pytorch.org/whl/cpu/torch lists them; to be changed with the version."""

READERS = ("pandas",)
"""Dependencies that only who reads results uses: no image has them."""

BASE_PYTHON = "3.13"
"""Of the public base image; a lock for another JAX is made for it and newer ones, since that JAX may have no older."""

_INPUTS = "# inputs: "

_LINUX = """
[project]
name = "image"
version = "0"
requires-python = ">=3.11,<3.14"
dependencies = {dependencies}
[tool.uv]
environments = ["{markers}"]
"""

_MARKERS = " and ".join(
    (
        "sys_platform == 'linux'",
        "platform_python_implementation == 'CPython'",
        "implementation_name == 'cpython'",
        "python_full_version < '3.14'",
    )
)

_CUDA = re.compile(r"(nvidia|cuda)-|triton$")


def main() -> int:
    """Make every lock anew.

    Returns:
        0, 2 where that cannot be done, or 130 where it was interrupted.
    """
    try:
        for name in EXTRAS:
            path = FOLDER / f"{name}.lock"
            path.write_text(make(name), encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def make(name: str) -> str:
    """Make one lock.

    Args:
        name: of ``EXTRAS``.

    Returns:
        Its text.

    Raises:
        UsageError: uv is not there or finds no solution.
    """
    # The core set of an image is that of the checkout's own environment.
    constraints = ["-c", str(ROOT / "requirements.lock")] if name != "sbom" else []
    if name == "cpu-torch":
        constraints += ["-c", str(FOLDER / "cpu-tensorflow.lock")]
    also = [f"torch=={TORCH_CPU_VERSION}"] if name == "cpu-torch" else []
    entries = resolve(EXTRAS[name], constraints, alone=name == "sbom", also=also)
    if name == "cpu-torch":
        entries = {key: text for key, text in entries.items() if not _CUDA.match(key)}
        head = entries["torch"].partition("\n")[0].rstrip(" \\")
        entries["torch"] = " \\\n".join([head, *(f"    --hash=sha256:{each}" for each in TORCH_CPU_SHA256)]) + "\n"
    if name.startswith("cpu-"):
        # On top of cpu.lock, which is installed first.
        core = read(FOLDER / "cpu.lock")
        entries = {key: text for key, text in entries.items() if core.get(key) != text}
    return f"{_INPUTS}{inputs(name)}\n" + "".join(entries.values())


def for_jax(variant: Variant) -> str:
    """Make a lock for another JAX: everything else stays as it is locked, as far as that JAX allows it.

    Args:
        variant: with a version of JAX.

    Returns:
        The text of one lock for the whole image.

    Raises:
        UsageError: uv is not there, or there is no such JAX for the rest.
    """
    extras = dict.fromkeys(extra for name in variant.locks for extra in EXTRAS[name])
    if "torch" in extras and variant.backend == "cpu":
        raise UsageError(
            "JAX=… with EXTRAS=torch on cpu: PyTorch's wheels without CUDA are in no index that is asked; leave one out"
        )
    before = "".join((FOLDER / f"{name}.lock").read_text(encoding="utf-8") for name in variant.locks)
    return "".join(resolve(tuple(extras), [], before=before, also=[f"jax=={variant.jax}"], python=BASE_PYTHON).values())


def resolve(
    extras: Sequence[str],
    constraints: Sequence[str],
    *,
    alone: bool = False,
    before: str = "",
    also: Sequence[str] = (),
    python: str = "3.11",
) -> dict[str, str]:
    """Let uv resolve, for Linux, whatever its processor.

    Args:
        extras: of pyproject.toml.
        constraints: options that name constraints.
        alone: whether the extras are resolved without the project's dependencies.
        before: a lock whose versions are kept where they can be.
        also: requirements more.
        python: the oldest Python that is resolved for.

    Returns:
        Distribution to its lines, in alphabetical order.

    Raises:
        UsageError: uv is not there or finds no solution.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise UsageError("uv is not on PATH, and locks are made by it: python3 -m pip install uv")
    project = _project()
    listed = [] if alone else [each for each in project["dependencies"] if not each.startswith(READERS)]
    listed += [each for extra in extras for each in project["optional-dependencies"][extra]]
    listed += also
    with tempfile.TemporaryDirectory(prefix="jitmatrix-lock-") as folder:
        work = Path(folder)
        (work / "pyproject.toml").write_text(
            _LINUX.format(dependencies=json.dumps(listed), markers=_MARKERS), encoding="utf-8"
        )
        (work / "image.lock").write_text(before, encoding="utf-8")
        options = ["--universal", "--python-version", python, "--generate-hashes"]
        options += ["--no-strip-extras", "--quiet", "--no-header", "--no-annotate", *constraints]
        done = subprocess.run(
            [uv, "pip", "compile", *options, "-o", "image.lock", "pyproject.toml"],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            because = " ".join(done.stderr.split())
            raise UsageError(f"uv finds no versions for {', '.join([*extras, *also])}: {because[:600]}")
        return read(work / "image.lock")


def read(path: Path) -> dict[str, str]:
    """Read a lock.

    Args:
        path: the file.

    Returns:
        Distribution to its lines, markers and hashes included; a distribution with two versions has the lines of both.
    """
    entries: dict[str, str] = {}
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", path.read_text(encoding="utf-8")):
        found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", block)
        if found:
            name = found.group().lower()
            entries[name] = entries.get(name, "") + block
    return entries


def inputs(name: str) -> str:
    """Hash what a lock is made from.

    Args:
        name: of ``EXTRAS``.

    Returns:
        Sixteen hexadecimal digits over the Pythons, the dependencies and the extras of pyproject.toml.
    """
    project = _project()
    extras = {extra: sorted(project["optional-dependencies"][extra]) for extra in EXTRAS[name]}
    core = [] if name == "sbom" else sorted(project["dependencies"])
    text = json.dumps([project["requires-python"], core, extras], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check(names: Iterable[str]) -> None:
    """Hold locks against pyproject.toml.

    Args:
        names: of ``EXTRAS``.

    Raises:
        UsageError: one is missing, or was made for other dependencies.
    """
    for name in names:
        path = FOLDER / f"{name}.lock"
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if not path.is_file():
            raise UsageError(f"{shown} is missing: run make lock")
        if path.read_text(encoding="utf-8").partition("\n")[0] != f"{_INPUTS}{inputs(name)}":
            raise UsageError(f"{shown} was made for other dependencies than pyproject.toml names: run make lock")


def _project() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return found


if __name__ == "__main__":
    sys.exit(main())
