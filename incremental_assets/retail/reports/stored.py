"""What the reports read of the lake and store in it, by the IO manager of dagster-delta."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import polars as pl
import pyarrow as pa
from dagster_delta import (
    AzureConfig,
    DeltaLakePolarsIOManager,
    GcsConfig,
    LocalConfig,
    S3Config,
)
from deltalake.exceptions import TableNotFoundError

from incremental_assets.days import DayRange
from incremental_assets.delta.contents import contents_of
from incremental_assets.delta.delta_table import open_table
from incremental_assets.query import query
from incremental_assets.retail.reports.figures import Report
from incremental_assets.settings import Settings

_STORES = {
    "s3": S3Config,
    "s3a": S3Config,
    "gs": GcsConfig,
    "abfs": AzureConfig,
    "abfss": AzureConfig,
}

_TABLE_NAME = "dagster/table_name"


class LakeFrames(DeltaLakePolarsIOManager):
    """The days of a run as a frame: rows of a table of the lake, and what a report stores.

    A table that is not there yet has no rows. The days of the run replace those that are stored.
    """

    def create_io_manager(self, context: dg.InitResourceContext) -> Any:
        return _StoredFrames(super().create_io_manager(context))


def lake_frames(settings: Settings) -> LakeFrames:
    """The IO manager of a lake. A store's credentials are those of the environment, as ever."""
    store = _STORES.get(urlsplit(settings.lake).scheme, LocalConfig)
    return LakeFrames(root_uri=settings.lake, storage_options=store())


class _StoredFrames(dg.IOManager):
    def __init__(self, dagster_deltas: dg.IOManager) -> None:
        self._delta = dagster_deltas

    def load_input(self, context: dg.InputContext) -> Any:
        with _log_level_kept():
            try:
                return self._delta.load_input(context)
            except TableNotFoundError:
                return pa.table({})

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        # Set before dagster-delta sets it: `deltalake.reports.…`, which no table here is called.
        own = context.definition_metadata or {}
        context.add_output_metadata({_TABLE_NAME: own[_TABLE_NAME]})
        with _log_level_kept():
            self._delta.handle_output(context, obj)


@contextmanager
def _log_level_kept() -> Iterator[None]:
    """Dagster-delta has every library of the process log all that it does, from then on."""
    root = logging.getLogger()
    before = root.level
    try:
        yield
    finally:
        root.setLevel(before)


def stored_rows(settings: Settings, report: Report, days: DayRange) -> pl.DataFrame:
    """What is stored of a report for these days. Raises DeltaError, LakeError or OSError."""
    there = open_table(f"{settings.lake}/{report.name}")
    if there is None:
        return report.schema.to_frame()
    where = f"dt BETWEEN DATE '{days.first}' AND DATE '{days.last}'"
    return query(there, ", ".join(f'"{name}"' for name in report.schema), where).cast(report.schema)


def last_stored(settings: Settings, report: Report) -> date | None:
    """The last day that a report has rows for."""
    there = open_table(f"{settings.lake}/{report.name}")
    days = contents_of(there).days if there is not None else {}
    return max((day for day in days if day is not None), default=None)
