"""A full copy that comes late is put in its place: between the copies before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.row_hash import row_hash
from incremental_assets.changes.watermark import instant
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.gate import is_good
from incremental_assets.intake.intake import HASH, ORDER, Intake
from incremental_assets.intake.target import Target
from incremental_assets.lake.history import DELETED
from incremental_assets.lake.strategy import History

_SHOWN = "_shown"
_FROM, _TO = "valid_from", "valid_to"


@contextmanager
def late_changes(
    session: SparkSession,
    intake: Intake,
    changes: SnapshotDiff,
    target: Target,
    copy: DataFrame,
    own: Mapping[str, DataType],
    at: datetime,
) -> Iterator[Found | None]:
    """What a history lacks of a copy that stands for a moment before the last one.

    Both diffs are made anew from the history itself: against what was valid until then, and of
    what was valid at the next copy against this one. Without history there is nothing to do: the
    last copy says all that is true now.
    """
    last = target.last
    if not isinstance(intake.write, History) or last is None:
        yield None
        return
    moments = [m for m in map(instant, target.moments) if m is not None and m > at]
    following = min(moments)
    if at in map(instant, target.moments):
        yield None  # this copy was loaded already
        return
    history = target.read(session, intake.target)
    now = copy.where(is_good()).select(*map(quoted, own), HASH, _SHOWN)
    with persisted(
        _placed(history, now, changes, own, at).unionByName(
            _placed_again(history, now, changes, own, following)
        )
    ) as rows:
        read = copy.count()
        yield Found(
            rows,
            own,
            target.position(Position("snapshot diff", ", ".join(changes.key))),
            read,
            deletes=1,
            notes=(f"the snapshot of {at.isoformat()} came late and was put in its place",),
        )


def _placed(
    history: DataFrame,
    now: DataFrame,
    changes: SnapshotDiff,
    own: Mapping[str, DataType],
    at: datetime,
) -> DataFrame:
    """Changes at the moment of the copy: where it differs from what was valid just before."""
    valid = _valid(history, at, until=True)
    return _differing(_versions(history.where(valid), changes, own), now, changes, own, at)


def _placed_again(
    history: DataFrame,
    now: DataFrame,
    changes: SnapshotDiff,
    own: Mapping[str, DataType],
    following: datetime,
) -> DataFrame:
    """Changes at the moment of the next copy: where that differs from this one."""
    valid = _valid(history, following, until=False)
    later = _versions(history.where(valid), changes, own)
    return _differing(now, later, changes, own, following)


def _valid(history: DataFrame, at: datetime, *, until: bool) -> Column:
    """Versions that were valid at a moment, or with `until` just before it."""
    moment = F.lit(at).cast("timestamp")
    begun = F.col(_FROM) < moment if until else F.col(_FROM) <= moment
    lasting = F.col(_TO) >= moment if until else F.col(_TO) > moment
    return begun & (F.col(_TO).isNull() | lasting)


def _versions(rows: DataFrame, changes: SnapshotDiff, own: Mapping[str, DataType]) -> DataFrame:
    missing = {n: F.lit(None).cast(t) for n, t in own.items() if n not in rows.columns}
    rows = rows.withColumns(missing) if missing else rows
    shown = row_hash(own, ignore=changes.ignore)
    return rows.select(*map(quoted, own), HASH, shown.alias(_SHOWN))


def _differing(
    before: DataFrame,
    after: DataFrame,
    changes: SnapshotDiff,
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
    gone = F.col(_SHOWN).isNull()
    differs = gone | ~F.col(_SHOWN).eqNullSafe(F.col(f"_was_{_SHOWN}"))
    columns = [
        F.when(gone, F.col(quoted(f"_was_{n}"))).otherwise(F.col(quoted(n))).alias(n) for n in own
    ]
    nothing = F.lit(None).cast("string")
    return joined.where(differs).select(
        *columns,
        F.coalesce(F.when(~gone, F.col(HASH)), F.lit("")).alias(HASH),
        F.lit(at).cast("timestamp").alias(ORDER),
        gone.alias(DELETED),
        nothing.alias("_file"),
        nothing.alias("_raw"),
        F.array().cast("array<string>").alias("_reasons"),
    )
