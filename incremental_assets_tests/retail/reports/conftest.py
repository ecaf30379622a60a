"""A lake for the tests of the reports, and runs of them without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import polars as pl
import pytest

from incremental_assets.ledger.entry import Touched
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did, jan
from incremental_assets_tests.retail.reports.reported import (
    BAD,
    RULE,
    SOLD,
    Runs,
    record,
    write_gold,
    write_names,
)


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: SparkResource, settings: Settings) -> Any:
        raise AssertionError("a report asked for Spark")

    monkeypatch.setattr(SparkResource, "session", refused)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def lake(settings: Settings) -> Settings:
    """Two days of sales and a third; one between is held, with rows in quarantine."""
    settings = settings.replace(end_date=jan(31))
    write_gold(settings, *SOLD)
    write_names(settings, p1="MILK", p2=BAD)
    sold = replace(did(SALES, 1, 3, touched=[3]), rows_read=9, rows_late=4, seconds=1.5)
    record(
        settings,
        replace(did(EVENTS, 1, 5, touched=[5]), rows_read=50, touched=(Touched(jan(5), 50),)),
        sold,
        replace(did(SALES, 2, 4, touched=[4]), rows_late=1),
        replace(did(SALES, 3, 5, state="held"), rows_quarantined=3, held_by=f"share: {BAD}"),
    )
    pl.DataFrame(
        {
            "_batch": [3, 3, 3],
            "_day": [jan(5)] * 3,
            "row": ["{}"] * 3,
            "reasons": [[RULE], [RULE, "price"], ["price"]],
        }
    ).write_delta(
        f"{settings.lake}/quarantine/silver_sales", delta_write_options={"partition_by": ["_day"]}
    )
    return settings


@pytest.fixture
def runs(lake: Settings, instance: dg.DagsterInstance) -> Runs:
    return Runs(lake, instance)
