"""What the project offers to Dagster, listed by hand."""

from __future__ import annotations

import dagster as dg

from incremental_assets import defs

ASSETS = {
    "bronze/events": {"rows_delivered", "no_empty_files"},
    "bronze/users": {"rows_delivered", "no_empty_files"},
    "silver/sales": {
        "order_id_not_null",
        "event_ts_not_null",
        "qty_not_null",
        "qty_at_least_0",
        "unit_price_not_null",
        "unit_price_at_least_0",
        "values_readable",
        "business_day_in_time",
        "quarantined_share",
    },
    "silver/users": {
        "user_id_not_null",
        "updated_at_not_null",
        "values_readable",
        "business_day_in_time",
        "quarantined_share",
    },
    "gold/sales_mart": {"reconciles"},
    "gold/daily_product_sales": {"reconciles"},
}
BLOCKING = {"rows_delivered", "quarantined_share", "reconciles"}
UPSTREAM = {
    "silver/sales": {"bronze/events"},
    "silver/users": {"bronze/users"},
    "gold/sales_mart": {"silver/sales", "silver/users"},
    "gold/daily_product_sales": {"gold/sales_mart"},
}


def test_definitions_hold_these_assets_checks_and_partitions_and_no_others() -> None:
    assert type(defs) is dg.Definitions
    graph = defs.resolve_asset_graph()
    keys = {key.to_user_string(): key for key in graph.get_all_asset_keys()}

    assert set(keys) == set(ASSETS)
    found: dict[str, set[str]] = {}
    for check in graph.asset_check_keys:
        found.setdefault(check.asset_key.to_user_string(), set()).add(check.name)
        assert graph.get(check).blocking == (check.name in BLOCKING)
    assert found == ASSETS
    for name, key in keys.items():
        node = graph.get(key)
        assert {parent.to_user_string() for parent in node.parent_keys} == UPSTREAM.get(name, set())
        assert node.backfill_policy == dg.BackfillPolicy.single_run()
        partitions = node.partitions_def
        assert isinstance(partitions, dg.DailyPartitionsDefinition)
        assert partitions.start.strftime("%Y-%m-%d") == "2017-01-01"
        assert partitions.end_offset == 1


def test_silver_day_is_fed_by_the_landing_days_from_one_before_to_the_lateness() -> None:
    graph = defs.resolve_asset_graph()
    sales = graph.get(dg.AssetKey(["silver", "sales"]))
    mapping = sales.partition_mappings[dg.AssetKey(["bronze", "events"])]

    assert isinstance(mapping, dg.TimeWindowPartitionMapping)
    assert (mapping.start_offset, mapping.end_offset) == (-1, 7)
