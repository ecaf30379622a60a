"""Example keys of broken rows: the first ones by rule and day, however many rows broke it."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.quality.examples import FEW, MOST, examples
from incremental_assets.quality.rules import satisfies, warn

FIRST, SECOND = date(2017, 1, 5), date(2017, 1, 6)
RULES = warn(satisfies("qty_below_90", "qty < 90"))


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """A hundred rows of two days: every tenth is unreadable twice over, two lack their key."""
    return spark.range(100).select(
        F.expr("if(id < 50, DATE'2017-01-05', DATE'2017-01-06')").alias("_day"),
        F.expr("if(id IN (3, 5), NULL, concat('k', id))").alias("order_id"),
        F.col("id").cast("int").alias("qty"),
        F.expr("if(id = 5, NULL, 'events/2017-01-05/a.jsonl')").alias("_file"),
        F.expr(
            "CASE WHEN id % 10 = 0 THEN array('qty_unreadable', 'unit_price_unreadable') "
            "WHEN id IN (3, 5) THEN array('order_id_null') WHEN id = 7 THEN array('too_late', 'x') "
            "ELSE array() END"
        ).alias("_reasons"),
    )


@pytest.mark.parametrize("broken", [12, FEW + 1], ids=["few", "many"])
def test_the_first_keys_of_each_rule_and_day_are_named(rows: DataFrame, broken: int) -> None:
    found = examples(rows, RULES, "_day", ["order_id"], broken=broken)

    keys = {place: list(some) for place, some in found.items()}
    tens = [f"order_id=k{n}" for n in sorted(str(n) for n in range(0, 50, 10))]
    others = [f"order_id=k{n}" for n in range(50, 100, 10)]
    assert keys.pop((FIRST, "order_id_null")) == [
        "a row of events/2017-01-05/a.jsonl",
        "a row without a key",
    ]
    assert keys.pop((FIRST, "x")) == ["order_id=k7"]
    assert keys.pop((SECOND, "qty_below_90")) == [f"order_id=k{n}" for n in range(90, 90 + MOST)]
    (readable,) = {rule for day, rule in keys if day == SECOND}
    assert keys.pop((FIRST, readable)) == tens
    assert keys.pop((SECOND, readable)) == others
    assert list(keys.values()) == [["order_id=k7"]]
    assert [day for day, _ in keys] == [FIRST]


def test_a_row_that_is_gone_breaks_only_what_quarantines_it(rows: DataFrame) -> None:
    found = examples(rows, RULES, "_day", ["order_id"], F.col("qty") >= 90, broken=12)

    assert "qty_below_90" not in {rule for _, rule in found}
    assert len(found) == 5
