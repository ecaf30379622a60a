"""A batch of whole days into a gold table: the days that changed are rebuilt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from incremental_assets.delta.read import read_staged
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.widen import widen
from incremental_assets.engine.batch import Batch, DayBatch, Outcome
from incremental_assets.engine.gold import change_set, destination, judge, made_rows, upstream_rows
from incremental_assets.engine.whole_days import stage_whole_days
from incremental_assets.frames import Frames


@dataclass(frozen=True)
class _Made:
    """The facts of the days, and what was made of them, staged."""

    facts: DataFrame
    write: StagedWrite


class DailyBatch(DayBatch[_Made]):
    """Reads the changed days of the facts and all versions looked up; replaces the days.

    The table's own write stages them. What is judged is what was staged: a day that fails is simply
    not committed.
    """

    def read(self, batch: Batch, frames: Frames) -> _Made:
        session, table = frames.session, batch.table
        read = [upstream_rows(session, batch, each) for each in table.upstreams]
        rows = made_rows(batch, read)
        notes = widen(session, batch.path, table.name, rows.schema.fields)
        key = (*table.key, "dt") if table.key else ()
        to = destination(batch, key, days=tuple(batch.work.days))
        write = stage_whole_days(frames, table.write, to, change_set(rows))
        return _Made(read[0], replace(write, notes=tuple(notes)))

    def gate(self, batch: Batch, frames: Frames, read: _Made) -> Outcome:
        rows = read_staged(frames.session, read.write.staged, ("dt",))
        return Outcome(*judge(batch, read.facts, rows))

    def stage(
        self, batch: Batch, frames: Frames, read: _Made, outcome: Outcome
    ) -> StagedWrite | None:
        write = read.write.of_days("dt", set(outcome.published))
        return write if outcome.published else None
