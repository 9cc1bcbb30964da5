"""The checkout that runs: which commit, and whether it differs from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kernels.variables import ROOT

PACKAGES = ("containers", "flows", "kernels", "selfcheck")
"""Folders in which a file counts before git knows it, for it is found and run. Reports stand beside them, and kernels
of a user's own, which are recorded by their hash."""


def state(root: Path = ROOT) -> tuple[str | None, bool]:
    """Read the commit that is checked out.

    Args:
        root: the checkout.

    Returns:
        Its hash, and whether a file that git tracks has changed or a package has one that it does not; None and False
        where this is no checkout, as within an image, or in an environment that stands in another project's checkout.
    """
    try:
        _git(root, "ls-files", "--error-unmatch", "kernels/checkout.py")
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return commit, bool(changed or _git(root, "ls-files", "--others", "--exclude-standard", "--", *PACKAGES))
    except (OSError, subprocess.SubprocessError):
        return None, False


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
