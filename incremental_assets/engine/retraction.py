"""A batch that takes the rows of landed files out of a bronze table, by a manual decision.

The files of its work are those that are retracted, as they were loaded; they are not read. The
commit's note names them, so that a ledger that is rebuilt from the log knows of the decision.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from incremental_assets.delta.delta_table import rows_by_file, version_of
from incremental_assets.delta.read import no_rows, plain_files
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.batch import Batch, Outcome
from incremental_assets.engine.landing import LandingBatch
from incremental_assets.engine.snapshot_base import RETRACTED
from incremental_assets.engine.snapshot_diff import (
    changes_after,
    differing,
    state_before,
)
from incremental_assets.engine.snapshots import SnapshotBatch, SnapshotChanges, SnapshotCounts
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry
from incremental_assets.plan.retract import left_of_snapshot

DECISION = "retracted"
"""Where the note of a commit has the retracted files, and who decided it, and why."""


class LandingRetraction(LandingBatch):
    """Removes the files' rows; data files that hold others, too, are rewritten without them."""

    def incoming(self, batch: Batch, frames: Frames) -> DataFrame:
        return no_rows(frames.session, plain_files(batch.path, version_of(batch.path)).schema)

    def gate(self, batch: Batch, frames: Frames, read: Any) -> Outcome:
        """No results: the rules judge what is delivered, and nothing was."""
        return replace(super().gate(batch, frames, read), results={})

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        (entry,) = outcome.entries
        return [replace(entry, rows_deleted=write.deleted)]

    def note(self, batch: Batch, read: Any, entries: Sequence[Entry]) -> str:
        return _with_decision(super().note(batch, read, entries), batch)

    def explained(self, batch: Batch, error: Exception) -> IncrementalAssetsError | None:
        return None  # nothing of the landing is read


class SnapshotRetraction(SnapshotBatch):
    """Compares what is left of a snapshot with the one before; without a file it never came.

    Then the changes of the snapshot after it are derived again, from the one before it.
    """

    def read(self, batch: Batch, frames: Frames) -> SnapshotChanges:
        ((day, todo),) = batch.work.days.items()
        left = left_of_snapshot(batch.table, todo, batch.view, batch.settings)
        if left:
            work = replace(batch.work, days={day: replace(todo, files=left)})
            return super().read(replace(batch, work=work), frames)
        before = state_before(frames.session, batch, day)
        later = changes_after(frames, batch, before, before, day, damaged=False)
        none = differing(before, before, day, damaged=False)
        rows = frames.cache(reduce(DataFrame.unionByName, later.values(), none))
        removed = sum(
            n for _, landed, n in rows_by_file(batch.path, "_landing_day") if landed == day
        )
        counts = SnapshotCounts(0, 0, 0, rows.count(), 0, 0, removed)
        return SnapshotChanges(rows, tuple(later), counts)

    def gate(self, batch: Batch, frames: Frames, read: SnapshotChanges) -> Outcome:
        outcome = super().gate(batch, frames, read)
        if read.counted.snapshot:
            return outcome
        (entry,) = outcome.entries
        position = json.dumps(json.loads(entry.position) | {RETRACTED: True})
        return Outcome([replace(entry, high=entry.low, position=position)], {})

    def note(self, batch: Batch, read: SnapshotChanges, entries: Sequence[Entry]) -> str:
        return _with_decision(super().note(batch, read, entries), batch)


def _with_decision(note: str, batch: Batch) -> str:
    """The note of a commit, with the decision of which it is the outcome."""
    (claim,) = batch.claims
    files = [(file.path, file.size, file.tag) for file in claim.files]
    decision = {DECISION: {"files": files, "who": claim.who, "why": claim.why}}
    return json.dumps(json.loads(note) | decision, separators=(",", ":"))
