"""Examples: a few keys of the rows that broke a rule, never whole rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from incremental_assets.frames import quoted
from incremental_assets.quality.gate import IN_TIME, READABLE, watched_rules
from incremental_assets.quality.reasons import is_good
from incremental_assets.quality.rule import APART, UNREADABLE, Rule

MOST = 5
FEW = 1_000
_LONGEST = 60
Examples = Mapping[tuple[date | None, str], tuple[str, ...]]


def examples(
    rows: DataFrame,
    rules: Sequence[Rule],
    day: str | None,
    key: Sequence[str],
    deletes: Column | None = None,
    *,
    broken: int,
) -> Examples:
    """Up to five keys per day and rule, in their order; rows are prepared, and have `_reasons`.

    Deletes break only the rules that quarantine them. A row without a key is named by its file. One
    Spark job over cached rows: call it only where something broke a rule. At most `broken` rows
    did; a few are fetched and sorted here, for which Spark would plan an aggregate, a window and a
    sort.
    """
    live = F.lit(1) == F.lit(1) if deletes is None else ~deletes
    live = live if day else live & is_good()
    watched = [
        F.when(live & ~F.coalesce(rule.condition(), F.lit(False)), F.lit(rule.name))
        for rule in watched_rules(rules)
    ]
    nothing = F.array(F.lit(None).cast("string"))
    reasons = F.col("_reasons") if "_reasons" in rows.columns else F.array().cast("array<string>")
    why = F.array_except(F.concat(reasons, F.array(*watched, nothing[0])), nothing)
    of = F.col(day) if day else F.lit(None).cast("date")
    named = rows.select(of.alias("day"), _named(rows, key).alias("key"), why.alias("why"))
    if broken <= FEW:
        return _in_order(named.where("size(why) > 0").collect())
    named = named.select("day", "key", F.explode("why").alias("why")).distinct()
    first = "row_number() OVER (PARTITION BY day, why ORDER BY key)"
    named = named.withColumn("_nth", F.expr(first)).where(F.col("_nth") <= MOST)
    return _in_order(named.select("day", "key", F.array("why").alias("why")).collect())


def _in_order(found: Iterable[Row]) -> Examples:
    texts: dict[tuple[date | None, str], set[str]] = {}
    for row in found:
        for reason in row["why"]:
            texts.setdefault((row["day"], _rule(reason)), set()).add(row["key"])
    return {rule: tuple(sorted(keys)[:MOST]) for rule, keys in texts.items()}


def _rule(reason: str) -> str:
    """The rule of a reason; some rules have several."""
    if reason.endswith(UNREADABLE):
        return READABLE
    return IN_TIME if reason in APART else reason


def _named(rows: DataFrame, key: Sequence[str]) -> Column:
    values = [F.left(F.col(quoted(n)).cast("string"), F.lit(_LONGEST)) for n in key]
    parts = [F.concat(F.lit(f"{n}="), value) for n, value in zip(key, values, strict=True)]
    by_key = F.concat_ws(", ", *parts)
    if "_file" not in rows.columns:
        return by_key
    # A delete of a row that a snapshot no longer has is in no file.
    by_file = F.coalesce(F.concat(F.lit("a row of "), F.col("_file")), F.lit("a row without a key"))
    return F.when(by_key != "", by_key).otherwise(by_file)
