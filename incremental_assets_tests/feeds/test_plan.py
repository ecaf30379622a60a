"""Plans of tables over stored sources, and of tables whose code changed, compared with the run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes import Timestamp
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Instant, Text
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, at
from incremental_assets_tests.planning import Compared, plan_and_run

BRONZE = Table(
    name="bronze/visits",
    description="Visits as the shop's table has them.",
    reads=(Stored("visits"),),
    changes=Timestamp("seen_at", lookback=timedelta(days=1)),
    day="seen_at",
    write=Append(),
)
SILVER = Table(
    name="silver/visits",
    description="One row a visit, on its day.",
    reads=(SameDay(BRONZE),),
    key=("id",),
    version_by=("seen_at",),
    day="seen_at",
    schema=Contract(id=Text(required=True), page=Text(), seen_at=Instant()),
    write=Merge(),
)


def newer(rows: DataFrame) -> DataFrame:
    return rows.withColumn("page", F.lit("NEW"))


def runs(lake: Lake) -> Compared:
    return plan_and_run(lake.lakehouse, list(lake.tables.values()), lake.now)


def visits(*times: str) -> pl.DataFrame:
    rows = {"id": list(times), "page": ["/"] * len(times), "seen_at": [at(t) for t in times]}
    return pl.DataFrame(rows, schema_overrides={"seen_at": pl.Datetime("us", "UTC")})


def test_a_stored_source_is_planned_by_the_days_that_changed_and_new_code_by_those_with_new_input(
    lake: Lakes,
) -> None:
    site = lake(BRONZE, SILVER)
    site.put_parquet("visits", "1.parquet", visits("04 10:00", "04 11:00", "05 10:00"))
    first, nothing = runs(site), runs(site)
    site.put_parquet("visits", "2.parquet", visits("05 12:00", "06 09:00"))
    changed = site.with_tables(BRONZE, replace(SILVER, transform=newer, code_version="2"))
    newer_code, after = runs(changed), runs(changed)

    assert first.done == first.planned
    assert first.days("bronze/visits") == {4: "append", 5: "append"}
    assert [day.rows for day in first.plan.days if day.table == "bronze/visits"] == [2, 1]
    assert (nothing.plan.days, nothing.done) == ((), frozenset())
    assert newer_code.done == newer_code.planned
    assert newer_code.days("silver/visits") == {5: "rebuild", 6: "append"}
    pages = {(str(dt), page) for dt, page in changed.rows("silver/visits", "dt", "page")}
    assert pages == {("2017-01-04", "/"), ("2017-01-05", "NEW"), ("2017-01-06", "NEW")}
    assert after.plan.days == ()
    assert {key: why[:41] for key, why in after.skipped().items()} == {
        ("silver/visits", 4): "made by code version 1, the code is 2: `i"
    }
