"""Variant: one image that can be built, a backend with extras and perhaps another JAX; its locks, names and content."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError, unknown
from kernels.variables import ROOT

FOLDER = Path(__file__).resolve().parent
"""Where Dockerfiles and locks stand."""

LOCKS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cpu": {"": ("cpu",), "tensorflow": ("cpu", "cpu-tensorflow"), "torch": ("cpu", "cpu-torch")},
    # PyTorch pins CUDA libraries that JAX takes newer: with it the whole image has others, and one lock for all.
    "gpu": {"": ("gpu",), "torch": ("gpu-torch",)},
    "tpu": {"": ("tpu",)},
}
"""Backend to extra to the locks that are installed, in order; the empty name stands for no extra."""

SOURCES = ("README.md", "pyproject.toml", "flows", "kernels", "selfcheck", "containers")
"""What an image is made from, as .dockerignore names it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One image.

    Attributes:
        backend: cpu, gpu or tpu.
        extras: frameworks beside the core set, in alphabetical order.
        jax: version of JAX, where it is not the lock's.
    """

    backend: str
    extras: tuple[str, ...] = ()
    jax: str | None = None

    @classmethod
    def of(cls, backend: str, extras: str = "", jax: str = "") -> Variant:
        """Read what a user typed.

        Args:
            backend: its name.
            extras: names, separated by commas.
            jax: a version; empty takes the lock's.

        Returns:
            The variant.

        Raises:
            UsageError: there is no such backend, no such extra for it, or what should be a version is none.
        """
        if backend not in LOCKS:
            raise unknown("backend", backend, LOCKS)
        known = [name for name in LOCKS[backend] if name]
        names = tuple(sorted({name.strip() for name in extras.split(",") if name.strip()}))
        if names and not known:
            raise UsageError(f"EXTRAS={extras}: the {backend} image takes none; leave it out")
        for name in names:
            if name not in known:
                raise unknown("extra", name, known, f"EXTRAS of the {backend} image")
        if jax and not re.fullmatch(r"\d+(\.\d+)+", jax):
            raise UsageError(f"JAX={jax}: give a version, such as JAX=0.11.0")
        return cls(backend, names, jax or None)

    @property
    def dockerfile(self) -> Path:
        """The file that the image is built by."""
        return FOLDER / f"{self.backend}.Dockerfile"

    @property
    def repository(self) -> str:
        """The image's name without a tag."""
        return f"jitmatrix-{self.backend}"

    @property
    def tag(self) -> str:
        """The tag that the newest build of the variant carries: the version, and what is not as usual."""
        jax = [f"jax{self.jax}"] if self.jax else []
        return "-".join([version(), *jax, *self.extras])

    @property
    def locks(self) -> tuple[str, ...]:
        """Names of the locks that are installed, in order, without their ending."""
        chosen = LOCKS[self.backend]
        names = [name for extra in (self.extras or ("",)) for name in chosen[extra]]
        return tuple(dict.fromkeys(names))

    def content(self, base: str, locks: Iterable[Path]) -> str:
        """Hash what the image is made from; the same content is the same image, but for what the base's tag hides.

        Args:
            base: the base image's name.
            locks: the lock files.

        Returns:
            Twelve hexadecimal digits.
        """
        digest = hashlib.sha256(repr((self, base)).encode())
        scripts = [path for path in FOLDER.iterdir() if path.suffix == ".sh"]
        for path in [*locks, *scripts, self.dockerfile, *sources()]:
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return digest.hexdigest()[:12]


def version() -> str:
    """Read the project's version.

    Returns:
        As pyproject.toml has it.
    """
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def sources() -> list[Path]:
    """List the files of the project that stand in every image.

    Returns:
        Paths in a fixed order.
    """
    found = []
    for name in SOURCES:
        path = ROOT / name
        if name == "containers":
            continue
        walked = [Path(folder) / file for folder, _, files in os.walk(path) for file in files]
        found += [file for file in walked if "__pycache__" not in file.parts] if path.is_dir() else [path]
    return sorted(found)
