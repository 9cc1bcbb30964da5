"""Typed settings from the environment; an option or a flow parameter wins over them."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kernels.errors import UsageError


def _state() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "jitmatrix"


class Settings(BaseSettings):
    """Settings of this machine, read from ``JITMATRIX_*``; what boto3 reads from ``AWS_*`` itself is none of them."""

    model_config = SettingsConfigDict(env_prefix="JITMATRIX_", env_ignore_empty=True)

    results: str = Field(default="results", description="Root of the results: a folder, or s3://bucket/prefix.")
    spool: Path = Field(
        default_factory=lambda: _state() / "spool",
        description="Local folder in which results wait for their way to S3.",
    )
    s3_addressing: Literal["auto", "path", "virtual"] = Field(
        default="auto",
        description="Where the bucket's name stands: in the path, in the host name, or as boto3 chooses.",
    )
    host: str = Field(
        default_factory=platform.node,
        description="Name of this machine in Prefect's limits; for containers of one machine, the machine's.",
    )
    s3_timeout_s: float = Field(default=30.0, gt=0, description="Seconds without a byte after which S3 is asked again.")


def settings() -> Settings:
    """Read the settings.

    Returns:
        The settings.

    Raises:
        UsageError: a variable holds what it cannot hold.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(["JITMATRIX", *(str(part).upper() for part in first["loc"])])
        raise UsageError(f"{name}: {first['msg']}") from None
