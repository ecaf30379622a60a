"""Which rows were loaded: a table that loses rows must not be given them again."""

from __future__ import annotations

from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, HASH, ORDER, WHY
from incremental_assets.delta.staged_write import SideRows
from incremental_assets.writes.destination import ChangeSet, Destination


def loaded_rows(changes: ChangeSet, to: Destination) -> SideRows:
    """The positions and hashes of the batch's rows, for the side table."""
    rows = changes.rows.select(ORDER, HASH, F.lit("loaded").alias(WHY), F.lit(False).alias(DELETED))
    return to.side(rows, changes.own)
