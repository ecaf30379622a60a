"""A snapshot that comes late counts between the ones before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.detector import NewRows
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import unseen
from incremental_assets.changes.watermark import instant
from incremental_assets.delta.columns import DELETED, HASH, ORDER
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.quality.reasons import is_good
from incremental_assets.row_hash import row_hash

_SHOWN = "_shown"
_FROM, _TO = "valid_from", "valid_to"


class Keyed(Protocol):
    """The part of the detector that is needed here: key, ignored columns, and the limit."""

    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def ignore(self) -> tuple[str, ...]: ...
    def refuse_deletes(
        self, request: ReadRequest, previous: DataFrame | None, deletes: int
    ) -> None: ...


def late_changes(
    frames: Frames,
    request: ReadRequest,
    changes: Keyed,
    snapshot: DataFrame,
    own: Mapping[str, DataType],
    at: datetime,
    *,
    keyless: bool,
) -> NewRows | None:
    """What an SCD2 table lacks of a snapshot of a moment before the last one.

    Both diffs are derived from the history itself: against what was valid until then, and of
    what was valid at the next snapshot against this one. What the next one lacked and kept, because
    its row was quarantined, counts as its own. Without history there is nothing to do: the last
    snapshot has all that is true now. Raises SnapshotError where it would delete too much.
    """
    state = request.state
    if not state.write.keeps_versions or state.last is None:
        return None
    moments = [m for m in map(instant, state.moments) if m is not None and m > at]
    following = min(moments)
    if at in map(instant, state.moments):
        return None  # this snapshot was loaded already
    history = state.read(frames.session)
    was = _versions(history.where(_valid(history, at, until=True)), changes, own)
    now = _with_undeleted(snapshot, was, changes, own, keyless=keyless)
    later = _versions(history.where(_valid(history, following, until=False)), changes, own)
    found = frames.cache(_differing(was, now, changes, own, at))
    changes.refuse_deletes(request, was, found.where(DELETED).count())
    found = found.unionByName(_differing(now, later, changes, own, following))
    bad = snapshot.where(~is_good()).withColumn(DELETED, F.lit(False)).select(*found.columns)
    bad = frames.cache(unseen(bad, state.quarantined(frames.session)))
    notes = [f"the snapshot of {at.isoformat()} came late; its changes were inserted"]
    if keyless:
        notes.append("rows without a readable key: no delete is derived from this snapshot")
    return NewRows(
        frames.cache(found.unionByName(bad)),
        own,
        state.position(Position("snapshot diff", ", ".join(changes.key))),
        snapshot.count(),
        bad.count(),
        deletes=True,
        notes=tuple(notes),
    )


def _with_undeleted(
    snapshot: DataFrame,
    was: DataFrame,
    changes: Keyed,
    own: Mapping[str, DataType],
    *,
    keyless: bool,
) -> DataFrame:
    """The good rows of a snapshot, and what was valid of the others, which are not deleted."""
    key = [quoted(name) for name in changes.key]
    good = snapshot.where(is_good()).select(*map(quoted, own), HASH, _SHOWN)
    lacking = was.join(good.select(*key), list(changes.key), "left_anti")
    if not keyless:
        quarantined = snapshot.where(~is_good()).select(*key)
        lacking = lacking.join(quarantined, list(changes.key), "left_semi")
    return good.unionByName(lacking.select(*good.columns))


def _valid(history: DataFrame, at: datetime, *, until: bool) -> Column:
    """Versions that were valid at a moment, or with `until` just before it."""
    moment = F.lit(at).cast("timestamp_ltz")
    begun = F.col(_FROM) < moment if until else F.col(_FROM) <= moment
    lasting = F.col(_TO) >= moment if until else F.col(_TO) > moment
    return begun & (F.col(_TO).isNull() | lasting)


def _versions(rows: DataFrame, changes: Keyed, own: Mapping[str, DataType]) -> DataFrame:
    missing = {n: F.lit(None).cast(t) for n, t in own.items() if n not in rows.columns}
    rows = with_columns(rows, missing)
    shown = row_hash(own, ignore=changes.ignore)
    return rows.select(*map(quoted, own), HASH, shown.alias(_SHOWN))


def _differing(
    before: DataFrame,
    after: DataFrame,
    changes: Keyed,
    own: Mapping[str, DataType],
    at: datetime,
) -> DataFrame:
    """Rows of `after` that `before` does not have, and deletes of keys that it has no more."""
    old = before.select(*(F.col(quoted(n)).alias(f"_was_{n}") for n in (*own, _SHOWN)))
    same = reduce(
        Column.__and__,
        (F.col(quoted(n)) == F.col(quoted(f"_was_{n}")) for n in changes.key),
    )
    joined = after.join(old, same, "full_outer")
    deleted = F.col(_SHOWN).isNull()
    differs = deleted | ~F.col(_SHOWN).eqNullSafe(F.col(f"_was_{_SHOWN}"))
    columns = [
        F.when(deleted, F.col(quoted(f"_was_{n}"))).otherwise(F.col(quoted(n))).alias(n)
        for n in own
    ]
    nothing = F.lit(None).cast("string")
    return joined.where(differs).select(
        *columns,
        F.coalesce(F.when(~deleted, F.col(HASH)), F.lit("")).alias(HASH),
        F.lit(at).cast("timestamp_ltz").alias(ORDER),
        deleted.alias(DELETED),
        nothing.alias("_file"),
        nothing.alias("_raw"),
        F.array().cast("array<string>").alias("_reasons"),
    )
