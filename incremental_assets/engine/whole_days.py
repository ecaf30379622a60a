"""Days that are rebuilt whole: staged by the table's own write, and replaced by one commit."""

from __future__ import annotations

from dataclasses import replace

from incremental_assets.delta.read import no_file
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy


def stage_whole_days(
    frames: Frames, write: WriteStrategy, to: Destination, changes: ChangeSet
) -> StagedWrite:
    """Stage all rows of the days of a batch, as if the table had none; they replace these days.

    Raises DefinitionError for a write that looks keys up in the files that are replaced.
    """
    staged = write.stage(frames, replace(to, keep=no_file), changes)
    if staged.replaced or staged.searched_files:
        raise DefinitionError(
            f"{to.name}: {write} looked keys up in files of days that are rebuilt, so rows that "
            "are no longer in them would stay, and others be missing. Nothing was published. Look "
            "keys up by `to.merge`, or in the files that `to.keep` names alone."
        )
    return replace(staged, replaced_by=("dt", tuple(to.days)))
