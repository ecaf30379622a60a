"""What differs between two copies, and what a table of changes says of a copy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.row_hash import HASH_VERSION, payload_hash
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.read import DataFile, read_version
from incremental_assets.plan.stored import state_of

OPERATION, KEY, HASH = "_operation", "_key", "_hash"
STATE = (KEY, HASH, "payload", "_file")


def identified(rows: DataFrame, batch: Batch) -> DataFrame:
    """Rows with `payload`, `_raw` and `_file`, and what tells them apart: `_key` and `_hash`."""
    changes = changes_of(batch)
    line = F.concat(F.lit("line:"), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    whole = payload_hash("payload", changes.ignore)
    return rows.select(
        "payload",
        "_raw",
        "_file",
        _identity(changes.key).alias(KEY),
        F.when(F.col("_raw").isNotNull(), line).otherwise(whole).alias(HASH),
    )


def _identity(key: Sequence[str]) -> Column:
    """The key of a payload as text; null where a part of it is missing."""
    fields = F.col("payload").try_cast("map<string,variant>")
    parts = [F.try_element_at(fields, F.lit(name)) for name in key]
    there = [part.isNotNull() & ~F.is_variant_null(part) for part in parts]
    complete = there[0]
    for each in there[1:]:
        complete &= each
    return F.when(complete, F.to_json(F.array(*parts)))


def copy_until(session: SparkSession, batch: Batch, *, until: date, inclusive: bool) -> DataFrame:
    """The copy that the table says there was until a day: the last change of each key."""

    def keep(file: DataFile) -> bool:
        landed: date = file.partition["_landing_day"]
        return landed <= until if inclusive else landed < until

    rows = read_version(session, batch.path, version_of(batch.path), keep)
    rows = rows.where(f"{KEY} IS NOT NULL AND _landing_day {'<=' if inclusive else '<'} '{until}'")
    last = F.max_by(F.struct(OPERATION, HASH, "payload", "_file"), "_landing_day")
    state = rows.groupBy(KEY).agg(last.alias("last")).select(KEY, "last.*")
    state = state.where(f"{OPERATION} != 'delete'")
    if not _as_before(batch):
        state = state.withColumn(HASH, payload_hash("payload", changes_of(batch).ignore))
    return state.select(*STATE)


def differing(before: DataFrame, now: DataFrame, day: date) -> DataFrame:
    """The changes from one copy to another, on a day."""
    old = before.select(
        F.col(KEY).alias("_old_key"),
        F.col(HASH).alias("_old_hash"),
        F.col("payload").alias("_old_payload"),
    )
    joined = now.where(f"{KEY} IS NOT NULL").join(old, F.col(KEY) == F.col("_old_key"), "full")
    kind = (
        F.when(F.col("_old_key").isNull(), F.lit("insert"))
        .when(F.col(KEY).isNull(), F.lit("delete"))
        .when(F.col(HASH) != F.col("_old_hash"), F.lit("update"))
    )
    return joined.select(
        kind.alias(OPERATION),
        F.lit(day).alias("_landing_day"),
        F.coalesce(KEY, "_old_key").alias(KEY),
        F.coalesce(HASH, "_old_hash").alias(HASH),
        F.when(F.col(KEY).isNull(), F.col("_old_payload"))
        .otherwise(F.col("payload"))
        .alias("payload"),
        "_file",
    ).where(f"{OPERATION} IS NOT NULL")


def placed_again(session: SparkSession, batch: Batch, now: DataFrame, following: date) -> DataFrame:
    """The changes of the copy after this one, against this one; its lines without a key stay."""
    later = copy_until(session, batch, until=following, inclusive=True)
    changed = without_raw(differing(now, later, following))

    def keep(file: DataFile) -> bool:
        return bool(file.partition["_landing_day"] == following)

    there = read_version(session, batch.path, version_of(batch.path), keep)
    unread = there.where(f"{KEY} IS NULL AND _landing_day = '{following}'")
    return changed.unionByName(unread.select(*changed.columns))


def without_raw(changed: DataFrame) -> DataFrame:
    """Changes of readable rows, with the column that holds other lines."""
    return changed.withColumn("_raw", F.lit(None).cast("string"))


def hashing(batch: Batch) -> dict[str, Any]:
    """How rows are hashed now, for the ledger."""
    return {"hash_version": HASH_VERSION, "ignore": sorted(changes_of(batch).ignore)}


def _as_before(batch: Batch) -> bool:
    """Whether every copy so far was hashed as this one is."""
    states = (state_of(entry) for entry in batch.view.table(batch.table.name).committed)
    wanted = hashing(batch)
    return all({name: state.get(name) for name in wanted} == wanted for state in states)


def loaded_days(batch: Batch) -> frozenset[date]:
    """The days of which the table has a copy."""
    return frozenset(batch.view.table(batch.table.name).last_committed)


def changes_of(batch: Batch) -> SnapshotDiff:
    """The detector of the batch's table."""
    assert isinstance(batch.table.changes, SnapshotDiff)
    return batch.table.changes
