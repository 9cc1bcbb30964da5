"""Local files that are there whole or not at all, and stay when the power goes."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

_TRIES = 100


def publish(path: Path, content: bytes) -> str:
    """Write a file so that it is there whole or not at all, whatever ends this process or the machine.

    Args:
        path: the file; its folder is made.
        content: all of it.

    Returns:
        The content's sha256, in hexadecimal digits.

    Raises:
        OSError: it cannot be written, such as on a full disk; nothing of it is left.
    """
    temporary = _temporary(path, content)
    temporary.rename(path)
    fsync_folder(path.parent)
    return hashlib.sha256(content).hexdigest()


def publish_new(path: Path, content: bytes | Path) -> bool:
    """Write a file as ``publish`` does, unless one of that name is there.

    Args:
        path: the file; its folder is made.
        content: all of it, or a file that holds it.

    Returns:
        Whether it was written; of several writers at once, one.

    Raises:
        OSError: it cannot be written.
    """
    temporary = _temporary(path, content)
    try:
        # Unlike a rename, a link never replaces what another writer has put there.
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    fsync_folder(path.parent)
    return True


def file_sha256(path: Path) -> str:
    """Hash a file without holding it.

    Args:
        path: the file.

    Returns:
        Its sha256, in hexadecimal digits.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder as durable as its files are.

    Args:
        folder: the folder.
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _temporary(path: Path, content: bytes | Path) -> Path:
    """Write a file that is durable but has no name for readers yet."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    for attempt in range(_TRIES):
        try:
            _make(path.parent)
            file = temporary.open("xb")
            break
        except FileNotFoundError:  # an uploader removed the folder, which was empty until now
            if attempt == _TRIES - 1:
                raise
    try:
        with file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                with content.open("rb") as source:
                    shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            fsync_folder(folder.parent)
