"""Names of any kind as parts of keys."""

from __future__ import annotations

import hashlib
import re
import unicodedata

PART_LENGTH = 120
"""Characters of a part of a key at most; file systems take 255 bytes, temporary names are longer than their file's."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HASHED = re.compile(r".*-[0-9a-f]{12}")


def key_part(name: str) -> str:
    """Make a part of a key from any name: safe in paths, addresses and partitions, and of that name alone.

    Args:
        name: such as a case's id; a plain one stays as it is.

    Returns:
        Letters, digits, dots, underscores and hyphens; where more was in the name, what is left of it and its hash.
    """
    # A plain name that looks like a hashed one is hashed as well, or it could be taken for another's.
    if _PLAIN.fullmatch(name) and len(name) <= PART_LENGTH and not _HASHED.fullmatch(name):
        return name
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", letters).strip("-._")[: PART_LENGTH - 13] or "name"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
