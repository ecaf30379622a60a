"""Append: every row stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Mode
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class Append(WriteStrategy):
    """Rows are only added; the rows of a repaired file are replaced."""

    appends: ClassVar[bool] = True
    loses_rows: ClassVar[bool] = False
    mode: ClassVar[Mode] = "append"

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The rows as they are."""
        return to.stage(to.spread(to.as_written(changes)))
