"""The real feed, landed and loaded by the command line, against an independent recomputation."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.truth import truth_of

DAYS = [date(2017, 1, day) for day in (1, 2, 3)]
SHARES = ("--late", "0.05", "--duplicate", "0.01", "--bad", "0.004")


def test_tables_equal_what_the_landed_files_say(shop: Shop, spark: SparkSession) -> None:
    landed = shop.command("demo", "land", "--from", "2017-01-01", "--to", "2017-01-03", *SHARES)
    assert landed.returncode == 0, landed.stderr
    # Day by day, the last day first, through Dagster's own command line and then ours.
    done = shop.materialize("--select", "*", "--partition", "2017-01-03")
    assert done.returncode == 0, done.stderr
    assert shop.command("run").returncode == 0

    world = shop.world(spark)
    truth = truth_of(Path(shop.settings.landing), shop.settings.start_date, DAYS)
    assert len(truth.sales) > 10_000
    assert len(truth.quarantined) > 20
    for name, expected, key in (
        ("silver/sales", truth.sales, ["order_id"]),
        ("silver/users", truth.users, ["user_id", "updated_at"]),
        ("gold/sales_mart", truth.mart, ["order_id"]),
        ("gold/daily_product_sales", truth.daily_product_sales, ["dt", "product_id", "store_id"]),
    ):
        mine = pl.read_delta(world.path(name)).select(expected.columns).sort(key)
        assert_frame_equal(mine, expected.sort(key), check_dtypes=False)
    assert len(world.quarantine()) == len(truth.quarantined)

    shown = shop.command("demo", "show", COLUMNS="160")
    assert shown.returncode == 0, shown.stderr
    assert "gold/daily_product_sales" in shown.stdout
    assert "products with the most revenue" in shown.stdout
