"""DeleteInsert: the batch's rows replace all rows of their keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from incremental_assets.delta.merge import delete_insert
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Mode
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.loaded_rows import loaded_rows
from incremental_assets.writes.strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class DeleteInsert(WriteStrategy):
    """What the table has of the batch's keys is deleted, and all rows of the batch are inserted.

    For keys that have several rows, such as the lines of an order.
    """

    by_key: ClassVar[bool] = True
    replaces_by_batch: ClassVar[bool] = True
    mode: ClassVar[Mode] = "merge"

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The rows, and what is left of the files that hold one of their keys."""
        rows = changes.rows.select(to.number, *to.written(changes.own))
        write = delete_insert(frames, rows, to.path, to.folder, to.key)
        return replace(write, inserted={None: changes.count}, side=(loaded_rows(changes, to),))
