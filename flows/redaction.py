"""Addresses without what is secret in them."""

from __future__ import annotations

import re

_SECRET = re.compile(r"//.*(?:@|%40)", re.DOTALL)


def without_secrets(text: str) -> str:
    """Take user name and password out of an address, or out of a text that quotes one.

    Args:
        text: the address or the text.

    Returns:
        The text without what stands before the last @ of an address: a password with a slash or a # in it ends the
        host's part of the address too early for a parser, so all of it is taken for secret, whatever it looks like.
    """
    return _SECRET.sub("//", text)
