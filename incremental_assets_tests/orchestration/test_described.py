"""What Dagster is told of tables, checks and sensors before anything runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from incremental_assets import defs
from incremental_assets.catalog import tables
from incremental_assets.errors import DefinitionError
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES

HOUR = timedelta(hours=1)


def test_everything_that_is_shown_is_described() -> None:
    graph = defs.resolve_asset_graph()
    described = {
        key.to_user_string(): graph.get(key).description for key in graph.materializable_asset_keys
    }
    described |= {str(key): graph.get(key).description for key in graph.asset_check_keys}
    described |= {sensor.name: sensor.description for sensor in defs.sensors or ()}
    jobs = [*(defs.jobs or ()), *(defs.schedules or ())]
    described |= {made.name: made.description for made in jobs}  # type: ignore[union-attr]

    assert [name for name, text in described.items() if not text] == []


def test_an_asset_says_what_it_is_how_it_is_made_and_by_what_it_is_found() -> None:
    graph = defs.resolve_asset_graph()
    mart = graph.get(dg.AssetKey(["gold", "sales_mart"]))

    what, _, how = (mart.description or "").partition("\n\n")
    assert what == "Each sale with its exact total price, its user and its product as of the sale."
    assert how.startswith("Join the versions at `event_ts`")
    assert mart.kinds == {"pyspark", "delta", "gold"}
    assert (mart.group_name, mart.owners) == ("gold", ["team:sales"])
    assert {"layer": "gold", "write": "Merge"}.items() <= mart.tags.items()
    products = graph.get(dg.AssetKey(["bronze", "products"]))
    assert {"layer": "bronze", "changes": "SnapshotDiff"}.items() <= products.tags.items()
    sales = graph.get(dg.AssetKey(["silver", "sales"])).metadata
    assert sales["dagster/table_name"] == "silver/sales"
    assert sales["dagster/uri"].endswith("/silver/sales")
    assert sales["dagster/storage_kind"] == "delta"
    assert [column.name for column in sales["dagster/column_schema"].columns][:2] == [
        "order_id",
        "user_id",
    ]


def policy(table: Table, settings: Settings) -> dg.FreshnessPolicy | None:
    (asset,) = incremental_assets([table], settings)
    return next(iter(asset.specs)).freshness_policy


def within(fails: timedelta, warns: timedelta) -> dg.FreshnessPolicy:
    """How long ago a table may have been published until it fails, and until a warning."""
    return dg.FreshnessPolicy.time_window(fail_window=fails, warn_window=warns)


def test_bronze_and_gold_are_to_be_published_within_the_set_time_and_silver_is_not_asked(
    settings: Settings,
) -> None:
    day = within(36 * HOUR, 27 * HOUR)
    found = {t.name: policy(t, settings) for t in tables()}
    assert found == {t.name: None if t.layer == "silver" else day for t in tables()}

    soon = settings.replace(fresh_hours=4)
    assert policy(EVENTS, soon) == within(4 * HOUR, 3 * HOUR)
    assert policy(EVENTS, settings.replace(fresh_hours=0)) is None


@pytest.mark.parametrize("table", [EVENTS, SALES, MART])
def test_a_table_says_itself_how_fresh_it_has_to_be_or_that_nobody_asks(
    table: Table, settings: Settings
) -> None:
    assert policy(replace(table, fresh_within=None), settings) is None
    weekly = replace(table, fresh_within=timedelta(days=8))
    assert policy(weekly, settings) == within(timedelta(days=8), timedelta(days=6))


def test_a_time_that_is_over_at_once_is_refused() -> None:
    with pytest.raises(DefinitionError, match="bronze/events: fresh_within is 0:01:00; give 0:05"):
        replace(EVENTS, fresh_within=timedelta(minutes=1))
