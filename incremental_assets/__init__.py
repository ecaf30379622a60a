"""Incremental loading on Spark and Delta Lake under Dagster, day by day and exactly once."""

from __future__ import annotations

from incremental_assets.definitions import defs

__all__ = ["defs"]
