"""Deriving keys of a target anew from all that is known of them, whatever it held."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.frames import quoted
from incremental_assets.intake.found import Found
from incremental_assets.intake.intake import BATCH, TABLE, Intake
from incremental_assets.intake.target import Target
from incremental_assets.intake.write import conformed, keep_beside, ranked, write_history
from incremental_assets.lake.history import DELETED, WHY
from incremental_assets.lake.merge import GONE, LOST, Merged, merge


def rewrite(
    session: SparkSession,
    intake: Intake,
    target: Target,
    found: Found,
    keys: DataFrame,
    batch: int,
    here: str,
    held: str = "",
) -> Merged:
    """Stage what the target holds of the keys, given every change that is known of them.

    `here` is the condition of what this batch says anew: what lies beside the target of that does
    not count any more, and is kept beside it again. `held` is the condition of what `found` need
    not say: what the target holds of that, and what lies beside it, counts as it is.
    """
    good = conformed(found.rows, found.own, target.columns)
    if intake.write.keeps_versions:
        return write_history(
            session, intake, target, found, good, batch, anew=here, keys=keys, held=held
        )
    if held:
        good = good if DELETED in good.columns else good.withColumn(DELETED, F.lit(False))
        for there in _held(session, intake, target, keys, held):
            good = good.unionByName(there, allowMissingColumns=True)
    changes = ranked(good, intake)
    deletes = changes.where(f"{DELETED} AND NOT {LOST}")
    ties = changes.where(f"{LOST} AND {here}")
    hidden = deletes.withColumn(WHY, F.lit("deleted")).unionByName(
        ties.withColumn(WHY, F.lit("lost by its hash alone"))
    )
    keep_beside(intake, found, hidden.drop(LOST), batch)
    last = changes.where(f"NOT {LOST} AND NOT {DELETED}").selectExpr(
        f"CAST({batch} AS bigint) AS {BATCH}",
        *(quoted(name) for name in (*found.own, *intake.order)),
        "true AS _there",
    )
    incoming = keys.join(last, list(intake.key), "left")
    incoming = incoming.withColumn(GONE, F.col("_there").isNull()).drop("_there")
    folder = intake.folder(batch)
    return merge(session, incoming, intake.target, folder, intake.key, F.lit(True), day=None)


def _held(
    session: SparkSession, intake: Intake, target: Target, keys: DataFrame, held: str
) -> Iterator[DataFrame]:
    """The rows of the keys that the target holds, and the deletes beside it."""
    rows = target.read(session, intake.target).where(held).drop(BATCH)
    yield rows.join(keys, list(intake.key), "left_semi").withColumn(DELETED, F.lit(False))
    for beside in target.side(session, intake.beside):
        deletes = beside.where(f"{DELETED} AND {held}").drop(BATCH, TABLE, WHY)
        yield deletes.join(keys, list(intake.key), "left_semi")
