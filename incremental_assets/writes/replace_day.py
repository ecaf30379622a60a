"""ReplaceDay: a day that changed is rebuilt whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy
from incremental_assets.writes.whole_days import days_in, is_of_days


@dataclass(frozen=True, slots=True)
class ReplaceDay(WriteStrategy):
    """A day that changed is rebuilt whole.

    `day` is the partition column that holds it; a day that the batch touches is read again from
    the source, with all its rows.
    """

    day: str = "dt"

    loses_rows: ClassVar[bool] = False

    @property
    def replaced_partition(self) -> str:
        return self.day

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """All rows of the days that the batch touches; they replace these days."""
        days: tuple[Any, ...] = tuple(to.days)
        if not to.days:
            days = days_in(changes.rows, self.day)
            if changes.every is not None:
                changes = replace(changes, rows=changes.every.where(is_of_days(self.day, days)))
        write = to.stage(to.spread(to.as_written(changes)))
        return replace(write, replaced_by=(self.day, days) if days else None)
