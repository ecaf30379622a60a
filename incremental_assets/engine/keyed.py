"""A batch of keys into a gold table: the rows of every key that changed are computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import named
from incremental_assets.delta.columns import DELETED, HASH
from incremental_assets.delta.compare import differing_rows, rows_of
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import (
    DataFile,
    TableFiles,
    plain_files,
    read_files,
    read_version,
)
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.widen import widen
from incremental_assets.engine.batch import Batch, DayBatch, Outcome, verdict
from incremental_assets.engine.gold import (
    destination,
    examples_of_broken,
    judged,
    made_totals,
    with_day,
)
from incremental_assets.engine.since import as_it_was_read, held_inputs
from incremental_assets.engine.totals import differences, totals
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.entry import Entry
from incremental_assets.plurals import counted
from incremental_assets.quality.judge import RuleResult
from incremental_assets.quality.rules import DayCounts
from incremental_assets.row_hash import row_hash
from incremental_assets.table import Sums, Table
from incremental_assets.writes.destination import ChangeSet

_SINCE = "_since"
_DAY = "_day"
_REPEATED, _WITHOUT_DAY = "_repeated", "_without_day"


@dataclass(frozen=True)
class _ChangedKeys:
    """The keys that changed, each with the first day `_since` that did, and their facts.

    `first` is the first of these days. `facts` are the upstream's rows of these keys, of a table
    with running columns from `_since` on; `present` the table's own rows of these keys, None before
    there are any.
    """

    first: date | None
    facts: DataFrame
    present: DataFrame | None


@dataclass(frozen=True)
class _Computed:
    """The keys that changed, and the rows that were computed of them."""

    touched: _ChangedKeys
    rows: DataFrame


class KeyedBatch(DayBatch[_Computed]):
    """Finds changed keys by comparing versions of the upstream, and recomputes their rows.

    The versions are the one that the table has read and the one of now; of both, only files that
    the other has not are read. A key's rows may be on days that are not of the batch: those days
    were loaded before, and are corrected in the same commit.
    """

    def read(self, batch: Batch, frames: Frames) -> _Computed:
        touched = _touched(frames, batch)
        return _Computed(touched, frames.cache(_made(batch, touched)))

    def gate(self, batch: Batch, frames: Frames, read: _Computed) -> Outcome:
        return Outcome(*_judge(batch, read.touched.facts, read.rows))

    def stage(
        self, batch: Batch, frames: Frames, read: _Computed, outcome: Outcome
    ) -> StagedWrite | None:
        if not outcome.published:
            return None
        name = batch.table.name
        notes = widen(frames.session, batch.path, name, read.rows.schema.fields)
        return replace(_write(frames, batch, read), notes=tuple(notes))

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        first = outcome.entries[0]
        return [_with_changes(e, write, first=e is first) for e in outcome.entries]


def _facts(batch: Batch) -> Table:
    facts = batch.table.facts
    assert facts is not None  # a table without is refused when it is defined
    return facts


def _touched(frames: Frames, batch: Batch) -> _ChangedKeys:
    """The changed keys with their rows."""
    table, session = batch.table, frames.session
    running = table.write.running_columns
    key, facts = list(table.key), _facts(batch)
    published = _as_published(batch)
    loaded = {*batch.view.table(table.name).last_committed, *batch.work.days}
    now = loaded - {day for days in published for day in days}
    changed = _changed(session, batch)
    by_key = changed.groupBy(*_names(key)).agg(F.min("dt").alias(_SINCE))
    some = reduce(lambda a, b: a & b, (F.col(quoted(name)).isNotNull() for name in key))
    keys = frames.cache(by_key.where(some))
    first: date | None = keys.agg(F.min(_SINCE)).collect()[0][0]

    def may_feed(file: DataFile) -> bool:
        day = file.partition["dt"]
        return first is not None and day in now and not (running and day < first)

    path = f"{batch.settings.lake}/{facts.name}"
    rows = read_version(session, path, batch.versions[facts.name], may_feed)
    rows = rows.where(f"dt IN ({sql_days(now)})") if now else rows.where("false")
    for days, before in published.items() if first is not None else ():
        of_days = [file for file in before.files if file.partition["dt"] in days]
        since = [f for f in of_days if not (running and first and f.partition["dt"] < first)]
        then = read_files(session, before, since)
        rows = rows.unionByName(then, allowMissingColumns=True)
    rows = rows.join(keys, key)
    rows = rows.where(f"dt >= {_SINCE}") if running else rows
    rows = frames.cache(rows.drop(_SINCE))
    present = None
    if batch.view.table(table.name).published_days:
        own = read_version(session, batch.path, version_of(batch.path))
        present = frames.cache(own.join(keys, key))
    return _ChangedKeys(first, rows, present)


def _as_published(batch: Batch) -> Mapping[frozenset[date], TableFiles]:
    """Held days whose input changed, with that input as it was before.

    What is held of a day is not there, also where a key is on another day as well. Raises LakeError
    where the input is gone as it was.
    """
    name = _facts(batch).name
    by_batch = held_inputs(batch.view, batch.table.name, name, batch.work.days)
    if not by_batch:
        return {}
    after = plain_files(f"{batch.settings.lake}/{name}", batch.versions[name])
    found: dict[frozenset[date], TableFiles] = {}
    for number, days in by_batch.items():

        def of_these(file: DataFile, days: set[date] = days) -> bool:
            return file.partition["dt"] in days

        before = as_it_was_read(batch, name, number, after, of_these)
        if before is None:
            raise LakeError(
                f"{batch.table.name}: {named(days)} of it {'is' if len(days) == 1 else 'are'} "
                f"held, and {name} is no longer there as it was before its batch {number + 1}, so "
                "the keys that these days share with others cannot be computed without what is "
                "held. Nothing was published. Repair the input of the held days, or accept them, "
                "and load them together with these."
            )
        found[frozenset(days)] = before
    return found


def _changed(session: SparkSession, batch: Batch) -> DataFrame:
    """Key and day of the upstream's rows that came, changed or went since the batch's windows.

    Of days that are restated, also of all rows that the upstream has of them, or the table has.
    """
    facts = _facts(batch)
    # An interval that ends, by a delete or a later version, is another row of the same hash.
    shown = facts.write.validity
    columns = list(dict.fromkeys((*batch.table.key, "dt", *facts.key, *shown, HASH)))
    path = f"{batch.settings.lake}/{facts.name}"
    after = plain_files(path, batch.versions[facts.name])
    found = [_of_these_days(session, batch, after)] if batch.work.kind == "restate" else []
    for low, days in _lows(batch, facts.name).items():

        def of_these(file: DataFile, days: set[date] = days) -> bool:
            return file.partition["dt"] in days

        before = as_it_was_read(batch, facts.name, low, after, of_these)
        if before is None:
            rows = rows_of(session, after, after.files, columns)
            if batch.view.table(batch.table.name).published_days and low:
                own = read_version(session, batch.path, version_of(batch.path))
                lost = own.select(*_names(batch.table.key), "dt")
                rows = rows.select(*lost.columns).unionByName(lost)
            elif not low:
                rows = rows.where(f"dt IN ({sql_days(days)})")
        else:
            rows = differing_rows(session, before, after, columns, of_these)
        found.append(rows.select(*_names(batch.table.key), "dt"))
    return reduce(DataFrame.unionByName, found)


def _lows(batch: Batch, facts: str) -> dict[int, set[date]]:
    """The batches of the upstream after which its days are compared.

    A day that is restated is compared with what was published of it, whether or not its watermark
    was rewound since: its window is read by this batch, and so is what has gone in it.
    """
    history, restated = batch.view.table(batch.table.name), batch.work.kind == "restate"
    found: dict[int, set[date]] = {}
    for day, work in batch.work.days.items():
        window = work.windows[0]
        low = history.published_up_to(facts, day) if restated else window.low
        if not restated or 0 < low < window.high:
            found.setdefault(low, set()).add(day)
    return found


def _of_these_days(session: SparkSession, batch: Batch, upstream: TableFiles) -> DataFrame:
    """Key and day of every row of the batch's days, on either side."""

    def of_these(file: DataFile) -> bool:
        return file.partition["dt"] in batch.work.days

    columns = [*batch.table.key, "dt"]
    days = f"dt IN ({sql_days(batch.work.days)})"
    rows = rows_of(session, upstream, [f for f in upstream.files if of_these(f)], columns)
    if batch.view.table(batch.table.name).published_days:
        own = plain_files(batch.path, version_of(batch.path))
        there = rows_of(session, own, [f for f in own.files if of_these(f)], columns)
        rows = rows.unionByName(there)
    return rows.where(days).select(*_names(batch.table.key), "dt")


def _made(batch: Batch, touched: _ChangedKeys) -> DataFrame:
    """The computed rows of the changed keys: `dt`, own columns and `_hash`."""
    table = batch.table
    assert table.transform is not None
    frames = [touched.facts]
    if table.write.running_columns:
        frames.append(_opening(table, touched))
    made = with_day(table, table.transform(*frames))
    types = {f.name: f.dataType for f in made.schema.fields if not f.name.startswith("_")}
    own = [quoted(name) for name in types if name != "dt"]
    rows = made.select("dt", *own, row_hash(types).alias(HASH))
    return rows.hint("rebalance", "dt") if len(batch.work.days) > 1 else rows


def _opening(table: Table, touched: _ChangedKeys) -> DataFrame:
    """The running columns of the last row of each key before its first day that changed."""
    key, running = _names(table.key), table.write.running_columns
    if touched.present is None:
        nothing = (F.lit(None).cast(kind).alias(name) for name, kind in running.items())
        return touched.facts.where("false").select(*key, *nothing)
    rows = touched.present.where(f"dt < {_SINCE}")
    last = F.max_by(F.struct(*_names(list(running))), "dt").alias("_last")
    return rows.groupBy(*key).agg(last).select(*key, "_last.*")


def _write(frames: Frames, batch: Batch, read: _Computed) -> StagedWrite:
    """Stage the computed rows, and what the keys no longer have on a day as deletes."""
    table, touched, rows = batch.table, read.touched, read.rows
    running, first = table.write.running_columns, touched.first
    key = [*table.key, "dt"]

    def may_hold(file: DataFile) -> bool:
        return first is not None and (not running or file.partition["dt"] >= first)

    own = {f.name: f.dataType for f in rows.schema.fields}
    to = destination(batch, key, keep=may_hold, days=tuple(batch.work.days))
    to = replace(to, counted_by="")
    if touched.present is None:
        return table.write.stage(frames, to, ChangeSet(rows, own))
    names = _names(key)
    present = touched.present.where(f"dt >= {_SINCE}") if running else touched.present
    deleted = present.select(*names).join(rows.select(*names), key, "left_anti")
    changes = rows.withColumn(DELETED, F.lit(False)).unionByName(
        deleted.withColumn(DELETED, F.lit(True)), allowMissingColumns=True
    )
    return table.write.stage(frames, to, ChangeSet(changes, own, deletes=True))


def _judge(
    batch: Batch, facts: DataFrame, rows: DataFrame
) -> tuple[list[Entry], Mapping[date, Sequence[RuleResult]]]:
    """Reconcile the new rows of all keys with what they are made from; the days pass together."""
    sums = batch.table.sums or Sums()
    whole = F.lit(None).cast("date").alias("dt")
    read = totals(facts.withColumn("dt", whole), {n: sql for n, (sql, _) in sums.sums.items()}, 0)
    of_made = {n: sql for n, (_, sql) in sums.sums.items()}
    days_of = rows.withColumns({_DAY: F.col("dt"), "dt": whole})
    rows, made = made_totals(batch, days_of, of_made, _repeated(batch.table))
    found: dict[int, Mapping[str, Any]] = {0: {}, 1: {}}
    for row in read.unionByName(made, allowMissingColumns=True).collect():
        found[row["side"]] = row.asDict()
    _require_identity(batch.table, found[1])
    count = found[1].get("rows", 0)
    apart = differences(sums, found[0], found[1])
    counts = DayCounts(count, 0, count, 0, differences=apart, now=batch.now)
    examples_of = examples_of_broken(batch, rows, [found[1]])
    days = [claim.day for claim in batch.claims]
    results = batch.accepting(judged(batch, counts, found[1], examples_of), *days)
    entries = [
        replace(claim, **verdict(results), rows_read=found[0].get("rows", 0) if at == 0 else 0)
        for at, claim in enumerate(batch.claims)
    ]
    return entries, {claim.day: results for claim in batch.claims}


def _repeated(table: Table) -> Mapping[str, Column]:
    """What the computed rows are counted by, to find those that no other load could distinguish.

    Rows without a part of their key hold the days anyway (`key_complete`).
    """
    identity = [*_names(table.key), _DAY]
    complete = reduce(lambda a, b: a & b, (F.col(name).isNotNull() for name in identity))
    return {
        _REPEATED: F.count_if(complete) - F.count_distinct(*map(F.col, identity)),
        _WITHOUT_DAY: F.count_if(F.col(_DAY).isNull()),
    }


def _require_identity(table: Table, found: Mapping[str, Any]) -> None:
    """Raise DefinitionError for several computed rows of one key and day, or a row of no day."""
    repeated, without = found.get(_REPEATED) or 0, found.get(_WITHOUT_DAY) or 0
    if without:
        raise DefinitionError(
            f"{table.name}: {counted(without, 'row')} of its transform have no dt, so no later "
            "load could find them again. Nothing was published; give each row a day."
        )
    if repeated:
        key = ", ".join(table.key)
        raise DefinitionError(
            f"{table.name}: {counted(repeated, 'row')} of its transform repeat the key ({key}) of "
            "another row on the same day, so a later load could not distinguish them. Nothing was "
            "published; name in `key` what they differ by, or aggregate them."
        )


def _with_changes(entry: Entry, write: StagedWrite, *, first: bool) -> Entry:
    """The counts of the batch are recorded on its first day, for its keys belong to no day."""
    if not first:
        return entry
    return replace(
        entry,
        rows_inserted=write.rows_inserted,
        rows_updated=write.rows_updated,
        rows_deleted=write.deleted,
        rows_counted=write.rows_inserted + write.rows_updated,
    )


def _names(names: Sequence[str]) -> list[str]:
    return [quoted(name) for name in names]
