"""Reports that are stored beside the results they are about; nothing of Prefect."""

from __future__ import annotations

from datetime import UTC, datetime

from flows.layout import REPORTS, is_report, report_key
from flows.results import uuid7
from flows.storage import Root
from kernels.errors import UsageError


def store(root: Root, page: str) -> str:
    """Store a report under a key of its own: earlier ones stay.

    Args:
        root: of the results.
        page: HTML, as ``flows.report_page.page`` writes it.

    Returns:
        Its address, a path or ``s3://bucket/…``.

    Raises:
        StorageError: the root refuses it or does not answer.
        UsageError: the folder cannot be written, such as on a full disk.
    """
    key = report_key(datetime.now(UTC).date(), str(uuid7()))
    try:
        root.put(key, page.encode())
    except OSError as error:
        raise UsageError(
            f"{root.address}: the report cannot be written ({error.strerror or error}); jitmatrix report --to writes"
            " it elsewhere"
        ) from None
    return f"{root.address}/{key}"


def newest(root: Root) -> str | None:
    """Find the report that was stored last.

    Args:
        root: of the results.

    Returns:
        Its address; None where there is none.

    Raises:
        StorageError: the root cannot be listed.
    """
    key = max((stored.key for stored in root.files(REPORTS) if is_report(stored.key)), default=None)
    return None if key is None else f"{root.address}/{key}"
