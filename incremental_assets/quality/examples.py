"""A few keys of the rows that broke a rule, for a person to look into: never whole rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.frames import quoted
from incremental_assets.quality.gate import APART, IN_TIME, LINE, READABLE, watched_rules
from incremental_assets.quality.rule import Rule

MOST = 5
_LONGEST = 60
Examples = Mapping[tuple[date, str], tuple[str, ...]]


def examples(
    rows: DataFrame,
    rules: Sequence[Rule],
    day: str,
    key: Sequence[str],
    gone: Column | None = None,
) -> Examples:
    """Up to five keys per day and rule, in their order; rows are prepared, and have `_reasons`.

    Rows that are `gone` break only what sets them aside. A row without a key is named by the file
    that it came from. One Spark job over rows that are kept: to be asked for only where something
    broke a rule.
    """
    live = F.lit(1) == F.lit(1) if gone is None else ~gone
    watched = [
        F.when(live & ~F.coalesce(rule.condition(), F.lit(False)), F.lit(rule.name))
        for rule in watched_rules(rules)
    ]
    nothing = F.array(F.lit(None).cast("string"))
    reasons = F.col("_reasons") if "_reasons" in rows.columns else F.array().cast("array<string>")
    broken = F.explode(F.array_except(F.concat(reasons, F.array(*watched, nothing[0])), nothing))
    day_of, key_of = F.col(day).alias("day"), _named(rows, key).alias("key")
    named = rows.select(day_of, key_of, broken.alias("why"))
    unreadable = F.col("why").endswith("_unreadable") | (F.col("why") == LINE)
    rule = F.when(unreadable, READABLE).when(F.col("why").isin(list(APART)), IN_TIME)
    named = named.select("day", "key", F.coalesce(rule, F.col("why")).alias("rule")).distinct()
    first = "row_number() OVER (PARTITION BY day, rule ORDER BY key)"
    found = named.withColumn("_nth", F.expr(first)).where(F.col("_nth") <= MOST)
    texts: dict[tuple[date, str], list[str]] = {}
    for row in found.orderBy("day", "rule", "_nth").collect():
        texts.setdefault((row["day"], row["rule"]), []).append(row["key"])
    return {place: tuple(some) for place, some in texts.items()}


def _named(rows: DataFrame, key: Sequence[str]) -> Column:
    values = [F.left(F.col(quoted(n)).cast("string"), F.lit(_LONGEST)) for n in key]
    parts = [F.concat(F.lit(f"{n}="), value) for n, value in zip(key, values, strict=True)]
    by_key = F.concat_ws(", ", *parts)
    if "_file" not in rows.columns:
        return by_key
    return F.when(by_key != "", by_key).otherwise(F.concat(F.lit("a row of "), F.col("_file")))
