"""Typed settings from the environment; an option or a flow parameter wins over them."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings of this machine, read from ``JITMATRIX_*``."""

    model_config = SettingsConfigDict(env_prefix="JITMATRIX_")

    results: str = Field(default="results", description="Root of the results: a local folder.")
