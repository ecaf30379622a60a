"""A batch of whole days into a gold table: what is asked, made anew for the days that changed."""

from __future__ import annotations

from incremental_assets.batches.batch import Batch, DayBatch, Outcome
from incremental_assets.batches.gold import judge, made_rows, upstream_rows
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import read_staged
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import discard, stage
from incremental_assets.lake.widen import widen


class DailyBatch(DayBatch):
    """Reads the changed days of the facts and all versions looked up; replaces the days."""

    def execute(self, batch: Batch) -> Outcome:
        with own_session(batch.spark(), batch.size) as session:
            frames = [upstream_rows(session, batch, read) for read in batch.table.upstreams]
            partition_by = self.partition_by(batch.table)
            rows = made_rows(batch, frames)
            notes = widen(session, batch.path, batch.table.name, rows.schema.fields)
            staged = stage(rows, batch.path, batch.folder, partition_by)
            entries, results = judge(batch, frames[0], read_staged(session, staged, partition_by))
            published = {e.day for e in entries if e.state == "committed"}
            good = staged.only("dt", published)
            if published:
                publish(good, batch.transaction(entries), replaced_days=published)
            discard(staged.without(good))
            if not published:
                return Outcome(entries, results)
            settled = self.settled(batch.table, entries, batch.commit())
            return Outcome(settled, results, notes)
