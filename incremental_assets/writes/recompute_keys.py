"""RecomputeKeys: the rows of every key that changed are computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, HASH
from incremental_assets.delta.merge import OLD, TO_DELETE
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Mode
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class RecomputeKeys(WriteStrategy):
    """The rows of every key that changed are computed again, and no others.

    From all that the upstream has of the key. Or, where the rows of a day go on from those of the
    day before (a running total), from what it has of the first day that changed and of later ones:
    then `running` names the columns, with their SQL types, that the transform is handed of the
    key's last row before it.
    """

    running: Mapping[str, str] = field(default_factory=dict)

    by_key: ClassVar[bool] = True
    recomputes_keys: ClassVar[bool] = True
    mode: ClassVar[Mode] = "merge"

    @property
    def running_columns(self) -> Mapping[str, str]:
        return self.running

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The new rows, without what the keys no longer have (`_deleted`); equal rows stay."""
        if not changes.deletes:  # the table has no row yet
            return to.stage(to.as_written(changes))
        rows = changes.rows.select(
            to.number, *to.written(changes.own), F.col(DELETED).alias(TO_DELETE)
        )
        return to.merge(frames, rows, f"{TO_DELETE} OR {HASH} != {OLD}.{HASH}", (HASH,))
