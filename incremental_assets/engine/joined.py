"""A batch of changed rows into a gold table: only facts that are new or whose lookup changed."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.columns import HASH
from incremental_assets.delta.compare import differing_rows
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import (
    DataFile,
    plain_files,
    read_files,
    read_staged,
    read_version,
)
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.widen import widen
from incremental_assets.engine.batch import Batch, DayBatch, Outcome
from incremental_assets.engine.gold import change_set, destination, judge, made_rows, upstream_rows
from incremental_assets.engine.since import as_it_was_read
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.entry import Entry
from incremental_assets.table import AsOf

# Each is a comparison of two versions; beyond these, the days are joined whole.
_MOST_COMPARED = 8


@dataclass(frozen=True)
class _Joined:
    """All facts of the days, and their changed rows, merged and staged."""

    facts: DataFrame
    write: StagedWrite


class JoinedBatch(DayBatch[_Joined]):
    """Joins the facts that changed since the table read them, and merges them into their days.

    A fact has changed if a batch has written it since, or if what is known of the key that it
    looks up has. A row of the facts makes one row here, and never leaves its day, so nothing has
    to be taken away; a day of the facts that was restated is rebuilt instead.
    """

    def read(self, batch: Batch, frames: Frames) -> _Joined:
        session, table = frames.session, batch.table
        looked_up = [
            upstream_rows(session, batch, read)
            for read in table.upstreams
            if isinstance(read, AsOf)
        ]
        facts = _changed_facts(session, batch)
        rows = made_rows(batch, [facts, *looked_up])
        notes = widen(session, batch.path, table.name, rows.schema.fields)
        days = batch.work.days

        def of_these_days(file: DataFile) -> bool:
            return file.partition["dt"] in days

        to = destination(batch, (*table.key, "dt"), days=tuple(days), keep=of_these_days)
        if not to.is_empty():  # so the rows are merged, which reads them twice
            rows = frames.cache(rows)
        write = table.write.stage(frames, to, change_set(rows))
        every = upstream_rows(session, batch, table.upstreams[0])
        return _Joined(every, replace(write, notes=tuple(notes)))

    def gate(self, batch: Batch, frames: Frames, read: _Joined) -> Outcome:
        return Outcome(*judge(batch, read.facts, _days_after(frames.session, batch, read.write)))

    def stage(
        self, batch: Batch, frames: Frames, read: _Joined, outcome: Outcome
    ) -> StagedWrite | None:
        write = read.write.of_days("dt", set(outcome.published))
        return write if outcome.published else None

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        return [_counted(entry, write) for entry in outcome.entries]


def _changed_facts(session: SparkSession, batch: Batch) -> DataFrame:
    """The facts of the batch's days that are new to the table, or look up a changed version."""
    table = batch.table
    facts = table.upstreams[0].table.name
    by_low: dict[int, list[date]] = {}
    for work in batch.work.days.values():
        by_low.setdefault(work.windows[0].low, []).append(work.day)
    # Up to the version that is read, not to the window's end: the days are reconciled with that.
    new = " OR ".join(
        f"(dt IN ({sql_days(days)}) AND _batch > {low})" for low, days in by_low.items()
    )
    lookups = [
        (index, read, days)
        for index, read in enumerate(table.upstreams)
        if isinstance(read, AsOf) and (days := _days_that_look_up(batch, index))
    ]
    changed = {day for _, _, days in lookups for day in days}

    def may_change(file: DataFile) -> bool:
        day = file.partition["dt"]
        return day in changed or any(
            day in days and file.may_hold_batches(low, sys.maxsize) for low, days in by_low.items()
        )

    path = f"{batch.settings.lake}/{facts}"
    rows = read_version(session, path, batch.versions[facts], may_change)
    if not lookups:
        return rows.where(new)
    conditions = []
    for index, read, days in lookups:
        of_these = f"dt IN ({sql_days(days)})"
        keys = _changed_keys(session, batch, read, set(days.values()))
        if keys is None:  # it is unknown which, so all of them
            conditions.append(of_these)
            continue
        flag = f"_changed_{index}"
        rows = rows.join(keys.withColumn(flag, F.lit(True)), read.key, "left")
        conditions.append(f"({of_these} AND {flag} IS NOT NULL)")
    rows = rows.where(f"{new} OR {' OR '.join(conditions)}")
    return rows.drop(*(f"_changed_{index}" for index, _, _ in lookups))


def _days_that_look_up(batch: Batch, index: int) -> dict[date, int]:
    """The days whose facts may look up another version in an upstream than before.

    Each with the upstream's batch up to which it has read.
    """
    upstream = batch.view.table(batch.table.upstreams[index].table.name)
    lows = {work.day: work.windows[index].low for work in batch.work.days.values()}
    return {day: low for day, low in lows.items() if upstream.looked_up_changes(day, low)}


def _changed_keys(
    session: SparkSession, batch: Batch, read: AsOf, lows: Collection[int]
) -> DataFrame | None:
    """The keys whose version differs from the one of any of the upstream's batches `lows`.

    A version that came and went is another one for the days alone that have read in between. None
    where a version is no longer known, or they are too many to be compared.
    """
    if len(lows) > _MOST_COMPARED:
        return None
    name = read.table.name
    after = plain_files(f"{batch.settings.lake}/{name}", batch.versions[name])
    ends = [read.valid_to] if read.valid_to else []
    columns = [read.key, read.valid_from, *ends, HASH]
    found = []
    for low in lows:
        before = as_it_was_read(batch, name, low, after)
        if before is None:
            return None
        found.append(differing_rows(session, before, after, columns).select(quoted(read.key)))
    return reduce(DataFrame.unionByName, found).distinct()


def _days_after(session: SparkSession, batch: Batch, write: StagedWrite) -> DataFrame:
    """What the batch's days hold once the merge is published."""
    # The version of the merge: OPTIMIZE may have replaced the files since.
    version = version_of(batch.path) if write.version is None else write.version
    table = plain_files(batch.path, version)
    unchanged = {*write.searched_files} - {*write.replaced}
    untouched = [file for file in table.files if file.path in unchanged]
    staged = read_staged(session, write.staged, ("dt",))
    if not untouched:
        return staged
    return read_files(session, table, untouched).unionByName(staged, allowMissingColumns=True)


def _counted(entry: Entry, write: StagedWrite) -> Entry:
    inserted, updated = write.inserted.get(entry.day, 0), write.updated.get(entry.day, 0)
    return replace(
        entry, rows_read=inserted + updated, rows_inserted=inserted, rows_updated=updated
    )
