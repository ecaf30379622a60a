"""Joining facts with the version of a table that was valid when each of them happened."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from incremental_assets.delta.columns import HASH
from incremental_assets.delta.scd2 import VALIDITY
from incremental_assets.frames import quoted
from incremental_assets.table import AsOf


def join_as_of(facts: DataFrame, versions: DataFrame, read: AsOf, prefix: str) -> DataFrame:
    """Each fact once, with the attributes of its version, each named with the prefix.

    Null where there is none: a key that has no version, or one that was deleted before. A fact's
    own column of that name wins. Left out are the key, the intervals, and what is about the load.
    """
    taken = {name.lower() for name in facts.columns}
    hidden = {"dt", read.key, read.valid_from, *VALIDITY}
    named = {
        name: f"{prefix}{name}"
        for name in versions.columns
        if not name.startswith("_") and name not in hidden
    }
    attributes = {name: new for name, new in named.items() if new.lower() not in taken}
    intervals = validity(versions, read).select(
        F.col(quoted(read.key)).alias("_key"),
        "_from",
        "_to",
        *(F.col(quoted(name)).alias(new) for name, new in attributes.items()),
    )
    return facts.join(intervals, is_valid(read), "left").drop("_key", "_from", "_to")


def validity(versions: DataFrame, read: AsOf) -> DataFrame:
    """The versions with the half-open interval [`_from`, `_to`) in which each is looked up.

    Null is without end: the first version of a key holds before it, too. A version that a delete
    ended holds no longer than that. Of versions that begin at one instant, or without one, the one
    with the greatest `_hash` holds from then on, so that every load finds the same one. No two
    intervals of a key overlap.
    """
    own = [HASH] if HASH in versions.columns else []
    order = Window.partitionBy(quoted(read.key)).orderBy(quoted(read.valid_from), *own)
    begin = F.col(quoted(read.valid_from))
    following = F.lead(begin).over(order)
    begins = F.when(F.row_number().over(order) > 1, begin)
    ends = F.least(F.col(quoted(read.valid_to)), following) if read.valid_to else following
    # Without a begin they come first: all but the last of them hold at no time.
    is_last = begin.isNotNull() | following.isNotNull() | F.lead(F.lit(1)).over(order).isNull()
    there = versions.withColumns({"_from": begins, "_to": ends, "_is_last": is_last})
    return there.where("_is_last").drop("_is_last")


def is_valid(read: AsOf) -> Column:
    """Whether a row of `validity`, its key named `_key`, is what a fact looks up."""
    at = F.col(quoted(read.at))
    return (
        (F.col(quoted(read.key)) == F.col("_key"))
        & (F.col("_from").isNull() | (at >= F.col("_from")))
        & (F.col("_to").isNull() | (at < F.col("_to")))
    )
