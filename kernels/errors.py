"""Errors that are the user's to mend: one clear line, exit status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Something a user typed or wrote is wrong; the message is one line that says how to mend it."""


class UnavailableError(RuntimeError):
    """A framework or a device that a case needs is not there; the message says how to get it."""


def unknown(what: str, name: object, choices: Iterable[str], where: str = "") -> UsageError:
    """Build the error for a name that is not among the choices.

    Args:
        what: the noun of the field, such as ``kernel``.
        name: what was given.
        choices: what could have been given.
        where: the option or the file and key in which it was given.

    Returns:
        The error, with the choices and the nearest of them; it is the caller's to raise.
    """
    known = list(choices)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    place = f" ({where})" if where else ""
    return UsageError(f"unknown {what} {str(name)!r}{place}: choose from {', '.join(known) or 'nothing'}{hint}")
