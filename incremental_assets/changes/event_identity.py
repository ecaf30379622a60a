"""The identity of a quarantined event of a change log.

Not its columns alone: the DELETE that comes again with a number has the columns of the one that
came without, and an event without a row has those of every other one, a truncate among them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.source_rows import LINE, unseen
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.quality.reasons import is_good

EVENT = "_event"
_EVENT = "event:"


def with_identity(
    rows: DataFrame, stated: Mapping[str, Column], *, of_good: bool = False
) -> DataFrame:
    """Quarantined events get as `_hash` what identifies them; good ones keep their row's.

    That is the row's hash, and `stated`: what the log states of the event itself, its operation and
    its position. Where it has no position, its file counts as well. `_event` is the same,
    where asked for also of good ones: an event that can be applied now may be in quarantine.
    """
    file = F.when(F.col(ORDER).isNull(), F.col("_file"))
    parts = [F.col(HASH).alias("row"), file.alias("file")]
    parts += [column.cast("string").alias(name) for name, column in stated.items()]
    text = F.to_json(F.struct(*parts))
    identity = F.concat(F.lit(_EVENT), F.substring(F.sha2(text, 256), 1, 32))
    identity = F.when(F.col("_raw").isNotNull(), F.col(HASH)).otherwise(identity)
    asked = F.lit(True) if of_good else ~is_good()
    rows = rows.withColumn(EVENT, F.when(asked, identity))
    return rows.withColumn(HASH, F.when(is_good(), F.col(HASH)).otherwise(F.col(EVENT)))


def not_yet_quarantined(rows: DataFrame, state: TargetState) -> DataFrame:
    """The events without those that are quarantined and were so before; good ones are all there.

    What an earlier version quarantined is stored under the hash of its columns, which does not
    identify it and is not compared: such an event is quarantined once more if it is read again.
    """
    is_whole = F.col(HASH).startswith(_EVENT) | F.col(HASH).startswith(LINE)
    known = state.quarantined(rows.sparkSession)
    return unseen(rows, [hashes.where(is_whole) for hashes in known])
