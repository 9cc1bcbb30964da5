"""What a command says of stored files that were not read."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def tell(aside: Mapping[str, str]) -> None:
    """Say on standard error which files were set aside, a line each.

    Args:
        aside: key to the reason.
    """
    for key, reason in sorted(aside.items()):
        sys.stderr.write(f"jitmatrix: set aside {key}: {reason}\n")
