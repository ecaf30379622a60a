"""The two reports, as assets in runs of a real instance over real Delta tables, without Spark."""

from __future__ import annotations

import logging
import os
import re
from base64 import b64decode
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets import build_definitions
from incremental_assets.catalog import tables
from incremental_assets.ledger.ledger import ledger_path
from incremental_assets.retail.reports import reports
from incremental_assets.retail.reports.figures import DAILY_SALES, PIPELINE_HEALTH
from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.shop import Shop, log_without_a_jvm
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, jan
from incremental_assets_tests.retail.reports.reported import (
    BAD,
    D3,
    D4,
    D5,
    D6,
    D7,
    RULE,
    SOLD,
    TAGS,
    Runs,
    Tags,
    sums,
    write_gold,
)
from incremental_assets_tests.thorough import thorough


def test_a_day_is_reported_exactly_and_stored_and_the_log_level_stays_as_it_is(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    assert runs.report(D4).success

    assert logging.getLogger().level == logging.ERROR
    stored = runs.stored()
    assert stored.schema["revenue"] == pl.Decimal(38, 4)
    (day,) = stored.select("dt", "revenue", "orders", "units", "products", "rows_late").rows()
    assert day == (jan(4), *sums(jan(4)), 2, 1)
    assert [(best["product"], best["revenue"]) for best in stored["best"][0]] == [
        ("Milk 1 L", Decimal("99999999999999.9999")),
        ("Unknown product", Decimal(1)),
    ]
    shown = runs.shows(DAILY_SALES.name, D4)
    assert (shown["orders"], shown["rows_late"]) == (5, 1)
    assert shown["revenue"] == pytest.approx(1e14 + 1)
    assert shown["page"] == f"{runs.settings.lake}/reports/index.html"
    assert shown["dagster/table_name"] == DAILY_SALES.name


def test_a_range_is_one_run_which_replaces_its_days_and_no_others(runs: Runs) -> None:
    runs.report(D6)
    done = runs.report(D3, D4)

    assert [
        event.partition for event in done.asset_materializations_for_node("reports__daily_sales")
    ] == [D3, D4]
    stored = {
        row[0]: row[1:] for row in runs.stored().select("dt", "revenue", "orders", "units").rows()
    }
    assert stored == {day: sums(day) for day in (jan(3), jan(4), jan(6))}
    assert runs.shows(DAILY_SALES.name, D3)["orders"] == 2
    pictures = {day: "revenue_by_day" in runs.shows(DAILY_SALES.name, day) for day in (D3, D4)}
    assert pictures == {D3: False, D4: True}
    best = runs.shows(DAILY_SALES.name, D4)["best_products_of_run"]
    assert best.records[0].data == {
        "product_id": "p1",
        "product": "Milk 1 L",
        "revenue": pytest.approx(1e14 + 12.3449),
        "units": 4,
    }


def test_a_day_that_is_reported_again_is_replaced(runs: Runs) -> None:
    runs.report(D3, D6)
    before = runs.stored(), runs.stored(PIPELINE_HEALTH.name).sort("dt", "table")
    runs.report(D3, D6)
    assert runs.stored().equals(before[0])
    assert runs.stored(PIPELINE_HEALTH.name).sort("dt", "table").equals(before[1])

    runs.report(D3, names=(DAILY_SALES.name,))  # the page of this run is not drawn over
    assert runs.page.count(f"<td>{D3}</td>") == runs.page.count(f"<td>{D6}</td>") == 1

    write_gold(runs.settings, *(row for row in SOLD if row["dt"] != jan(3)))
    runs.report(D3)
    assert runs.stored()["dt"].to_list() == [jan(4), jan(6)]
    assert f"<td>{D3}</td>" not in runs.page


def test_a_day_without_rows_says_so_and_loads_nothing(
    runs: Runs, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = (f"{runs.settings.lake}/gold/daily_product_sales", ledger_path(runs.settings.lake))
    before = [DeltaTable(path).version() for path in paths]

    assert runs.report(D5, D7).success

    printed = capfd.readouterr().err
    for day, why in (
        (D5, "silver/sales 2017-01-05 is held by its gate: share: "),
        (D7, "nothing was sold, or it is not loaded. `incremental-assets run` loads"),
    ):
        assert why in runs.shows(DAILY_SALES.name, day)["note"]
    assert "without rows. silver/sales 2017-01-05 is held by its gate: share: " in printed
    assert runs.stored()["dt"].to_list() == [jan(6)]
    assert [DeltaTable(path).version() for path in paths] == before


def test_a_lake_in_which_nothing_was_ever_loaded_has_reports_without_rows(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    runs = Runs(settings, instance)

    assert runs.report(D3, D4).success

    assert "no rows of 2017-01-03" in runs.shows(DAILY_SALES.name, D3)["note"]
    assert runs.shows(PIPELINE_HEALTH.name, D3)["note"] == "no table was loaded for the day"
    assert "No day was reported yet" in runs.page
    assert not Path(ledger_path(settings.lake)).exists()


def test_health_is_what_the_ledger_and_the_quarantine_say(runs: Runs) -> None:
    runs.report(D3, D6)

    stored = runs.stored(PIPELINE_HEALTH.name)
    found = {(row["dt"], row["table"]): row for row in stored.iter_rows(named=True)}
    sales = found[jan(3), "silver/sales"]
    assert [sales[name] for name in ("rows_read", "rows_out", "rows_late", "seconds", "state")] == [
        9,
        0,  # the table itself is not in this lake
        4,
        1.5,
        "committed",
    ]
    held = found[jan(5), "silver/sales"]
    assert (held["state"], held["rows_quarantined"], held["held_by"]) == (
        "held",
        3,
        f"share: {BAD}",
    )
    assert sorted((each["rule"], each["rows"]) for each in held["quarantine"]) == [
        ("price", 2),
        (RULE, 2),
    ]
    waiting = {
        table for (day, table), row in found.items() if day == jan(5) and row["state"] == "waits"
    }
    assert waiting == {"gold/sales_mart", "gold/daily_product_sales", "gold/latest_user_events"}
    assert found[jan(5), "bronze/events"]["rows_out"] == 50
    shown = runs.shows(PIPELINE_HEALTH.name, D5)
    assert (shown["tables_held"], shown["rows_quarantined"], shown["rows_read"]) == (1, 3, 50)


def test_the_page_shows_more_than_the_days_of_its_run_and_names_what_is_held(runs: Runs) -> None:
    runs.report(D3, D5)
    runs.report(D6)

    page = runs.page
    assert "2017-01-03...2017-01-06" in page
    assert "Held:</span> silver/sales 2017-01-05: share" in page
    assert "01-03: 12.35" in page
    assert "01-06: 7.50" in page
    assert page.index("Revenue by day") < page.index("Rows in quarantine by rule")

    # An old day that is reported again does not take the page back.
    runs.report(D3, names=[DAILY_SALES.name])
    assert "2017-01-03...2017-01-06" in runs.page
    assert "Revenue of 2017-01-06" in runs.page


def test_page_and_pictures_need_nothing_else_and_take_hostile_text_for_text(runs: Runs) -> None:
    runs.report(D3, D6)

    page = runs.page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.lower()
    assert "<script" not in page.lower()
    assert Tags.of(page) <= TAGS
    assert not re.search(r"https?:|//\w|\bsrc=|\bhref=|url\(|@import|\son\w+=", page)
    assert "default-src 'none'" in page

    found = {**runs.shows(DAILY_SALES.name, D6), **runs.shows(PIPELINE_HEALTH.name, D6)}
    pictures = {name: value for name, value in found.items() if str(value).startswith("![")}
    assert pictures.keys() >= {
        "revenue_by_day",
        "late_rows_by_day",
        "quarantine_by_rule",
        "load_seconds_by_layer",
    }
    for value in pictures.values():
        drawn = re.fullmatch(r"!\[[\w ]+\]\(data:image/svg\+xml;base64,([\w+/=]+)\)", value)
        assert drawn is not None
        svg = b64decode(drawn[1]).decode()
        assert "<script" not in svg.lower()
        assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]


def test_a_lake_may_have_any_folder_and_prefix(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    lake = f"{settings.lake}/ein See/ströme & #1"
    runs = Runs(settings.replace(lake=lake), instance, "shops/north")
    write_gold(runs.settings, *SOLD)

    assert runs.report(D3).success

    assert runs.stored()["revenue"].to_list() == [Decimal("12.3451")]
    assert "12.35" in runs.page


def test_reports_of_several_lakes_are_apart(settings: Settings) -> None:
    both = dg.Definitions.merge(
        *(
            build_definitions(
                tables(),
                settings.replace(lake=f"{settings.lake}/{name}"),
                key_prefix=name,
                group_name=f"{name}_{{layer}}",
                downstream=[reports],
            )
            for name in ("at", "fr")
        )
    )

    dg.Definitions.validate_loadable(both)
    graph = both.resolve_asset_graph()
    node = graph.get(dg.AssetKey(["at", "reports", "daily_sales"]))
    assert node.group_name == "at_reports"
    assert node.parent_keys == {dg.AssetKey(["at", "gold", "daily_product_sales"])}
    assert {s.name for s in both.sensors or ()} >= {"at_update_reports", "fr_update_reports"}


def test_other_tables_have_no_reports(settings: Settings) -> None:
    made = build_definitions([EVENTS, SALES], settings, downstream=[reports])

    assert {key.to_user_string() for key in made.resolve_all_asset_keys()} == {
        "bronze/events",
        "silver/sales",
    }


def test_a_day_that_was_loaded_is_asked_for_and_no_other(runs: Runs) -> None:
    made = runs.definitions

    def evaluated(cursor: Any = None) -> Any:
        return dg.evaluate_automation_conditions(
            made,
            runs.instance,
            cursor=cursor,
            evaluation_time=datetime(2017, 1, 20, 12, tzinfo=UTC),
        )

    def loaded(name: str, day: str) -> None:
        runs.instance.report_runless_asset_event(
            dg.AssetMaterialization(runs.key(name), partition=day)
        )

    def asked(found: Any, name: str) -> set[str]:
        return set(found.get_requested_partitions(runs.key(name)))

    loaded("gold/daily_product_sales", D3)
    first = evaluated()
    loaded("gold/daily_product_sales", D4)
    loaded("bronze/events", D5)  # a gate holds what is built on it
    second = evaluated(first.cursor)
    loaded(DAILY_SALES.name, D6)
    third = evaluated(second.cursor)

    assert asked(second, DAILY_SALES.name) == {D4}
    assert asked(second, PIPELINE_HEALTH.name) == {D4, D5}
    assert third.total_requested == 0


def test_credentials_are_in_no_config_and_the_store_follows_from_the_lake(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    from incremental_assets.retail.reports.stored import lake_frames

    found = {
        scheme: lake_frames(settings.replace(lake=f"{scheme}shop/lake"))
        for scheme in ("s3://", "s3a://", "gs://", "abfss://", "/")
    }

    stores = {scheme: each.storage_options.provider for scheme, each in found.items()}
    assert stores == {
        "s3://": "s3",
        "s3a://": "s3",
        "gs://": "gcs",
        "abfss://": "azure",
        "/": "local",
    }
    assert "a-secret" not in repr(list(found.values()))


@thorough(
    "retail/reports/test_reports.py, end_to_end/test_definitions.py: "
    "reports without Spark in the process of the tests; both reports are there"
)
@pytest.mark.parametrize(
    "setup",
    [{}, {"SPARK_REMOTE": "sc://127.0.0.1:9", "INCREMENTAL_ASSETS_TABLES_AT_ONCE": "2"}],
    ids=["in one process", "each report in a process"],
)
def test_the_command_line_reports_a_day_without_a_jvm(
    lake: Settings, tmp_path: Path, setup: dict[str, str]
) -> None:
    shop = Shop(tmp_path / "shop", lake)
    java_home, calls = log_without_a_jvm(tmp_path)

    done = shop.materialize(
        *("--select", "group:reports", "--partition", D4),
        JAVA_HOME=str(java_home),
        PATH=f"{java_home / 'bin'}:{os.environ['PATH']}",
        **setup,
    )

    assert done.returncode == 0, done.stderr
    assert not calls.exists()
    keys = [dg.AssetKey(name.split("/")) for name in (DAILY_SALES.name, PIPELINE_HEALTH.name)]
    with shop.instance() as instance:
        assert [instance.get_materialized_partitions(key) for key in keys] == [{D4}, {D4}]
