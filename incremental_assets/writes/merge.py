"""Merge: one row per key, the latest version by the table's order.

Of two versions that differ by their hash alone, the greater one stays, by convention,
and the other goes to the side table as a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from incremental_assets.delta.columns import BATCH, DELETED, HASH, PARTIAL, TABLE, WHY
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.merge import (
    CONFLICT,
    OLD,
    TO_DELETE,
    join_by_key,
    merge,
    rows_of_repeated_keys,
)
from incremental_assets.delta.read import read_version
from incremental_assets.delta.side_table import CONFLICTS
from incremental_assets.delta.staged_write import SideRows, StagedWrite
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.entry import Mode
from incremental_assets.writes.destination import (
    DELETED_BECAUSE,
    ChangeSet,
    Destination,
    struct_of,
)
from incremental_assets.writes.latest import latest_changes
from incremental_assets.writes.merge_lacking import Decided, decided, whole_rows
from incremental_assets.writes.strategy import WriteStrategy

LARGE_BATCH = 100_000
"""From so many rows on, a job that finds the keys that repeat takes less time than it saves."""
_THERE = "_there"
_DECIDED = "_is_decided"


@dataclass(frozen=True, slots=True)
class Merge(WriteStrategy):
    """One row per key, the latest version by the table's order."""

    by_key: ClassVar[bool] = True
    applies_deletes: ClassVar[bool] = True
    completes_rows: ClassVar[bool] = True
    keeps_latest: ClassVar[bool] = True
    mode: ClassVar[Mode] = "merge"

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The latest of the changes of each key, where it is later than the table's row."""
        if not to.order:
            return to.merge(frames, to.spread(to.as_written(changes)), "true")
        lacking = None
        if PARTIAL in changes.own:
            others, lacking = decided(frames, to, changes)
            if others is None:
                return _looked_up(frames, None, None, to, changes, lacking)
            changes = others
        latest = latest_of_batch(frames, changes, to)
        deletes = to.last_deletes(frames, changes.rows)
        simple = deletes is None and lacking is None and not changes.deletes
        if simple and to.is_empty():
            return _only_inserted(latest, to, changes)
        return _looked_up(frames, latest, deletes, to, changes, lacking)

    def rebuild(
        self,
        frames: Frames,
        to: Destination,
        changes: ChangeSet,
        keys: DataFrame,
        here: str,
        carried_forward: str = "",
    ) -> StagedWrite:
        """The latest of all changes that are known of each key; a key without one goes."""
        every = _with_carried_forward(frames, to, changes.changes, keys, carried_forward)
        if PARTIAL in changes.own:
            every = whole_rows(frames, every, to)
        latest = frames.cache(latest_changes(every, to))
        side: list[SideRows] = []
        if changes.deletes:
            deletes = latest.where(f"{DELETED} AND NOT {CONFLICT}")
            if PARTIAL in changes.own:  # what is older than a delete is no value of later rows
                deletes = latest_changes(every.where(DELETED), to)
            deletes = deletes.drop(CONFLICT)
            side.append(to.side(deletes.withColumn(WHY, F.lit(DELETED_BECAUSE)), changes.own))
        conflicts = latest.where(f"{CONFLICT} AND {here}")
        if not conflicts.isEmpty():
            side.append(to.side(to.conflicts(conflicts), changes.own, CONFLICTS))
        # A column that the contract no longer has stays where the table's own row counts.
        written = to.written(changes.own)
        former = [quoted(n) for n in to.columns if n in latest.columns and quoted(n) not in written]
        last = latest.where(f"NOT {CONFLICT} AND NOT {DELETED}").select(
            to.number, *written, *former, F.lit(True).alias(_THERE)
        )
        incoming = join_by_key(keys, last, to.key, "left", nulls=True)
        incoming = incoming.withColumn(TO_DELETE, F.col(_THERE).isNull()).drop(_THERE)
        write, _ = merge(
            frames,
            incoming,
            to.path,
            to.folder,
            to.key,
            F.lit(True),
            day=to.counted_by or None,
            nulls=True,
        )
        return replace(write, side=tuple(side))


def _only_inserted(latest: DataFrame, to: Destination, changes: ChangeSet) -> StagedWrite:
    """The latest rows as they are: the table has none of their keys, or they replace its days.

    How many are conflicts is counted by the way, in the one job that writes them.
    """
    seen = Observation("conflicts")
    rows = latest.observe(seen, F.count_if(CONFLICT).alias("lost")).where(f"NOT {CONFLICT}")
    rows = to.spread(rows.select(to.number, *to.written(changes.own)))
    write = to.stage_new(rows)
    side: tuple[SideRows, ...] = ()
    # A row that lost leaves one that stays; of a plan that was found empty nothing is observed.
    if write.staged.files and seen.get.get("lost"):
        side = (to.side(to.conflicts(latest.where(CONFLICT)), changes.own, CONFLICTS),)
    return replace(write, side=side)


def _looked_up(
    frames: Frames,
    latest: DataFrame | None,
    deletes: DataFrame | None,
    to: Destination,
    changes: ChangeSet,
    lacking: Decided | None,
) -> StagedWrite:
    """The latest rows against those of the table and its tombstones, and what is decided."""
    here, there = struct_of(to.position), struct_of(to.position, f"{OLD}.")
    if latest is not None and deletes is not None:
        latest = latest.join(deletes, list(to.key), "left")
        later = f"_marker IS NULL OR {here} > _marker OR (NOT {DELETED} AND {here} = _marker)"
        latest = latest.where(f"{later} OR {CONFLICT}").drop("_marker")
    side: list[SideRows] = []
    if changes.deletes:
        deleted = lacking.deletes if lacking is not None else None
        if latest is not None:
            of_latest = latest.where(f"{DELETED} AND NOT {CONFLICT}").drop(CONFLICT)
            deleted = of_latest if deleted is None else deleted.unionByName(of_latest)
        assert deleted is not None
        side.append(to.side(deleted.withColumn(WHY, F.lit(DELETED_BECAUSE)), changes.own))
    incoming = lacking.rows.withColumn(_DECIDED, F.lit(True)) if lacking is not None else None
    if latest is not None:
        compared = latest.select(
            to.number,
            *to.written(changes.own),
            DELETED,
            CONFLICT,
            F.expr(f"{DELETED} OR {CONFLICT}").alias(TO_DELETE),
            F.lit(False).alias(_DECIDED),
        )
        incoming = (
            compared
            if incoming is None
            else incoming.unionByName(compared, allowMissingColumns=True)
        )
    assert incoming is not None
    # Among changes at one position a row beats a delete, then the greater hash wins.
    tied = f"NOT {DELETED} AND {here} <=> {there}"
    beats = f"{here} > {there} OR ({tied} AND {HASH} > coalesce({OLD}.{HASH}, ''))"
    if to.first_by:
        first = quoted(to.first_by)
        beats = f"{beats} OR ({tied} AND {HASH} = {OLD}.{HASH} AND {first} < {OLD}.{first})"
    lost = f"NOT {_DECIDED} AND {OLD} IS NOT NULL AND {tied} AND {HASH} != {OLD}.{HASH}"
    write, conflicts = merge(
        frames,
        to.spread(incoming),
        to.path,
        to.folder,
        to.key,
        F.expr(f"({_DECIDED} OR {beats}) AND NOT {CONFLICT}"),
        tuple(dict.fromkeys((*to.order, *([to.first_by] if to.first_by else [])))),
        to.keep,
        day=to.counted_by or None,
        conflict=F.expr(f"{CONFLICT} OR ({lost})"),
        helpers=(DELETED, CONFLICT, _DECIDED),
    )
    if conflicts is not None:
        hash_of_conflict = f"if({CONFLICT}, {HASH}, least({HASH}, {OLD}.{HASH}))"
        side.append(to.side(to.conflicts(conflicts, hash_of_conflict), changes.own, CONFLICTS))
    return replace(write, side=tuple(side))


def latest_of_batch(frames: Frames, changes: ChangeSet, to: Destination) -> DataFrame:
    """The last change of each key in the batch, and its conflicts.

    In a large batch, the rows whose key occurs once are separated first.
    """
    rows = changes.changes
    if changes.count < LARGE_BATCH:
        return latest_changes(rows, to)
    apart = rows_of_repeated_keys(frames, rows, to.key)
    if apart is None:
        return latest_changes(rows, to)
    alone, others = apart
    return alone.withColumn(CONFLICT, F.lit(False)).unionByName(latest_changes(others, to))


def _with_carried_forward(
    frames: Frames, to: Destination, changes: DataFrame, keys: DataFrame, carried_forward: str
) -> DataFrame:
    """The changes, and what the table and its side table hold of the keys that counts as it is."""
    if not carried_forward:
        return changes
    rows = (
        read_version(frames.session, to.path, version_of(to.path))
        .where(carried_forward)
        .drop(BATCH)
    )
    rows = rows.join(keys, list(to.key), "left_semi").withColumn(DELETED, F.lit(False))
    same = list(dict.fromkeys((*to.key, "dt", *to.position)))
    every = join_by_key(changes, rows, same, "left_anti", nulls=True)
    every = every.unionByName(rows, allowMissingColumns=True)
    superseded = to.superseded(frames.session) if to.tombstones else None
    if superseded is None:
        return every
    deletes = superseded.where(f"{DELETED} AND {carried_forward}").drop(BATCH, TABLE, WHY)
    deletes = deletes.join(keys, list(to.key), "left_semi")
    return every.unionByName(deletes, allowMissingColumns=True)
