"""OverwriteDays: the days in the batch are overwritten by the batch's rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.loaded_rows import loaded_rows
from incremental_assets.writes.strategy import WriteStrategy
from incremental_assets.writes.whole_days import days_in


@dataclass(frozen=True, slots=True)
class OverwriteDays(WriteStrategy):
    """The days in the batch are overwritten by the batch's rows; the others stay.

    `day` is a partition column. Unlike `ReplaceDay`, rows of such a day that are not in the batch
    are deleted.
    """

    day: str = "dt"

    replaces_by_batch: ClassVar[bool] = True

    @property
    def replaced_partition(self) -> str:
        return self.day

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The batch's rows, which replace their days."""
        days = days_in(changes.rows, self.day)
        return replace(
            to.stage(to.as_written(changes)),
            replaced_by=(self.day, days) if days else None,
            side=(loaded_rows(changes, to),),
        )
