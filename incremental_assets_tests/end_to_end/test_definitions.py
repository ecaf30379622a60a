"""What the project offers to Dagster, listed by hand."""

from __future__ import annotations

import dagster as dg

from incremental_assets import defs

TYPED = {"values_readable", "business_day_in_time", "quarantined_share", "fields_present"}
ASSETS = {
    "bronze/events": {"rows_delivered", "no_empty_files"},
    "bronze/users": {"rows_delivered", "no_empty_files"},
    "bronze/orders": set(),
    "bronze/inventory_movements": set(),
    "bronze/products": {"rows_delivered", "deleted_share"},
    "silver/sales": TYPED
    | {
        "order_id_not_null",
        "event_ts_not_null",
        "qty_not_null",
        "qty_at_least_0",
        "unit_price_not_null",
        "unit_price_at_least_0",
    },
    "silver/orders": TYPED
    | {
        "order_id_not_null",
        "status_not_null",
        "amount_not_null",
        "amount_at_least_0",
        "created_at_not_null",
        "updated_at_not_null",
    },
    "silver/inventory_movements": TYPED
    | {
        "movement_id_not_null",
        "product_id_not_null",
        "store_id_not_null",
        "delta_not_null",
        "moved_at_not_null",
    },
    "silver/users": TYPED | {"user_id_not_null"},
    "silver/products": TYPED | {"product_id_not_null"},
    "gold/sales_mart": {"reconciles", "key_complete"},
    "gold/daily_product_sales": {"reconciles"},
    "gold/customer_orders": {"reconciles", "key_complete"},
    "gold/inventory_levels": {"reconciles", "key_complete"},
    "gold/latest_user_events": {"reconciles"},
    "reports/daily_sales": set(),
    "reports/pipeline_health": set(),
}
BLOCKING = {"rows_delivered", "quarantined_share", "reconciles", "key_complete", "deleted_share"}
UPSTREAM = {
    "silver/sales": {"bronze/events"},
    "silver/orders": {"bronze/orders"},
    "silver/inventory_movements": {"bronze/inventory_movements"},
    "silver/users": {"bronze/users"},
    "silver/products": {"bronze/products"},
    "gold/sales_mart": {"silver/sales", "silver/users", "silver/products"},
    "gold/daily_product_sales": {"gold/sales_mart"},
    "gold/customer_orders": {"silver/orders"},
    "gold/inventory_levels": {"silver/inventory_movements"},
    "gold/latest_user_events": {"silver/sales"},
    "reports/daily_sales": {"gold/daily_product_sales"},
    "reports/pipeline_health": set(ASSETS) - {"reports/pipeline_health"},
}


def test_definitions_hold_these_assets_checks_and_partitions_and_no_others() -> None:
    assert type(defs) is dg.Definitions
    graph = defs.resolve_asset_graph()
    keys = {key.to_user_string(): key for key in graph.get_all_asset_keys()}

    assert set(keys) == set(ASSETS)
    assert [schedule.name for schedule in defs.schedules or ()] == ["daily_maintenance"]
    jobs = {job.name for job in defs.jobs or ()}
    assert jobs == {
        "accept",
        "load_days",
        "load_due",
        "maintenance",
        "replay",
        "restate",
        "retract",
        "rewind",
        "verify",
    }
    sensors = list(defs.sensors or ())
    assert [sensor.name for sensor in sensors] == [
        "new_in_events",
        "new_in_inventory_movements",
        "new_in_orders",
        "new_in_products",
        "new_in_users",
        "stale_days",
        "failed_run_alerts",
        "data_alerts",
        "update_reports",
    ]
    asking = [sensor for sensor in sensors if not sensor.name.endswith("_alerts")]
    assert {sensor.default_status for sensor in asking} == {dg.DefaultSensorStatus.STOPPED}
    found: dict[str, set[str]] = {}
    for check in graph.asset_check_keys:
        found.setdefault(check.asset_key.to_user_string(), set()).add(check.name)
        assert graph.get(check).blocking == (check.name in BLOCKING)
    assert found == {name: checks for name, checks in ASSETS.items() if checks}
    for name, key in keys.items():
        node = graph.get(key)
        assert {parent.to_user_string() for parent in node.parent_keys} == UPSTREAM.get(name, set())
        assert node.backfill_policy == dg.BackfillPolicy.single_run()
        partitions = node.partitions_def
        assert isinstance(partitions, dg.DailyPartitionsDefinition)
        assert partitions.start.strftime("%Y-%m-%d") == "2017-01-01"
        assert partitions.end_offset == 1


def test_a_backfill_of_three_days_is_three_days_of_every_table() -> None:
    graph = defs.resolve_asset_graph()
    for node in graph.asset_nodes:
        partitions = node.partitions_def
        assert partitions is not None
        days = partitions.subset_with_partition_keys(["2017-01-16", "2017-01-17", "2017-01-18"])
        assert set(node.partition_mappings) == node.parent_keys
        for mapping in node.partition_mappings.values():
            found = mapping.get_upstream_mapped_partitions_result_for_partitions(
                days, partitions, partitions, None
            )
            assert found.partitions_subset == days
