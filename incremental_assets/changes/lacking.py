"""Events that lack fields which did not change: how they are judged, and how they are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType

from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.target_state import TargetState
from incremental_assets.changes.unchanged import (
    IS_WHOLE,
    NO_EARLIER,
    NO_EARLIER_FLAG,
    NOTHING,
    NoEarlier,
    Unchanged,
)
from incremental_assets.delta.columns import DELETED, HASH, LACKS, OPERATION, PARTIAL, REASONS
from incremental_assets.delta.earlier_values import (
    OTHERS,
    as_partial,
    forgotten,
    partial_type,
    with_earlier_values,
)
from incremental_assets.delta.lookup import sent_if_few
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.row_hash import HASH_VERSION, row_hash

_KNOWN, _LATEST = "_known_version", "_latest_known"
_WAS_GOOD = "_was_good"
_BAD = "size(_reasons) > 0"
_MOST_ROUNDS = 10
"""Each round, the first event of a key that was taken for good, or for bad, is known for sure."""


class MayLack(Protocol):
    """A log whose events may lack fields that did not change."""

    @property
    def unchanged(self) -> Unchanged: ...
    @property
    def no_earlier(self) -> NoEarlier: ...


@dataclass(frozen=True, slots=True)
class Lacking:
    """Events that lack fields which did not change: those `marked` in one of them, and how else."""

    marked: tuple[str, ...]
    unchanged: Unchanged
    no_earlier: NoEarlier

    @classmethod
    def of(cls, log: MayLack, marked: Sequence[str] | None) -> Lacking | None:
        """Of the events of a log, in some of which these fields are marked; None where none may."""
        if not marked and log.unchanged == "marked":
            return None
        return cls(tuple(sorted(marked or ())), log.unchanged, log.no_earlier)

    def columns(self, columns: Sequence[str], key: Sequence[str]) -> list[str]:
        """Those of a table's columns that an event may lack."""
        some = columns if self.unchanged != "marked" else [n for n in columns if n in self.marked]
        return [name for name in some if name not in key]

    def lacked(self, columns: Sequence[str], has_field: Mapping[str, Column]) -> Column:
        """The names of those columns that an upsert does not have, for rows with `_lacks`.

        `has_field` is whether an event has a field for a column.
        """
        names, is_upsert = F.col(LACKS), F.col(OPERATION) == "upsert"
        if self.unchanged == "marked" or not columns:
            return names
        empty = {
            name: ~has_field[name] & ~F.col(IS_WHOLE)
            if self.unchanged == "absent"
            else F.col(quoted(name)).isNull()
            for name in columns
        }
        there = F.array(*(F.when(empty[n] & is_upsert, F.lit(n)) for n in columns))
        return F.array_union(names, F.array_except(there, F.array(F.lit(None).cast("string"))))

    def hashed(self, types: Mapping[str, DataType], row: Column | None = None) -> Column:
        """The hash of an event: one that lacks a column is not the one in which it is null.

        Of what the event itself has, so that a column which a table gets later changes nothing.
        `row` is the hash of its row.
        """
        row = row_hash(types) if row is None else row
        names = F.col(LACKS)
        if self.unchanged == "null":
            return row
        if self.unchanged == "absent":
            is_update = (F.col(OPERATION) == "upsert") & ~F.col(IS_WHOLE)
            names = F.when(is_update, self._nulls(types)).otherwise(F.expr(NOTHING))
        text = F.concat(row, F.lit(" "), F.to_json(F.array_sort(names)))
        other = F.concat(F.lit(f"{HASH_VERSION}:"), F.substring(F.sha2(text, 256), 1, 32))
        return F.when(F.size(names) > 0, other).otherwise(row)

    def partial(self, types: Collection[str], kind: ArrayType) -> Column:
        """`_partial` of events with columns of these names."""
        lacks, is_upsert = F.col(LACKS), F.col(OPERATION) == "upsert"
        if self.unchanged == "marked":
            return as_partial(kind, lacks)
        if self.unchanged == "null":
            return as_partial(kind, lacks, others=is_upsert)
        is_update = is_upsert & ~F.col(IS_WHOLE)
        nulls = F.when(is_update, self._nulls(types)).otherwise(F.expr(NOTHING))
        return as_partial(kind, lacks, nulls, is_update)

    def _nulls(self, types: Collection[str]) -> Column:
        """The names of the columns that are null in the event itself."""
        null = (
            F.when(F.col(quoted(n)).isNull() & ~F.array_contains(LACKS, n), F.lit(n))
            for n in sorted(types)
        )
        return F.array_except(F.array(*null), F.array(F.lit(None).cast("string")))

    @property
    def asks_for_earlier(self) -> bool:
        """Whether an event without an earlier version is put into quarantine.

        Where null means that a field did not change, that of a first version is simply null.
        """
        return self.no_earlier == "quarantine" and self.unchanged != "null"


@dataclass(frozen=True, slots=True)
class _EarlierValues:
    """Where events get the values that they lack, so that they can be judged.

    `known` are the versions of the keys that lack something, as events; `few` those keys, if they
    are few and the batch is large.
    """

    key: Sequence[str]
    order: Sequence[str]
    columns: Sequence[str]
    latest_alone: bool
    kind: ArrayType
    known: DataFrame | None
    few: DataFrame | None

    @classmethod
    def of(
        cls,
        frames: Frames,
        rows: DataFrame,
        known: DataFrame | None,
        key: Sequence[str],
        order: Sequence[str],
        columns: Sequence[str],
        *,
        latest_alone: bool,
    ) -> _EarlierValues:
        """For these events, and the versions that are `known`.

        Where of a key the `latest_alone` is known, an event that is older than it, and so will
        change little, is judged by its values.
        """
        kind = partial_type(rows.schema, order)
        keys = rows.where(F.size(LACKS) > 0).selectExpr(*map(quoted, key)).distinct()
        few = None if frames.is_small else sent_if_few(frames, keys)
        if known is not None:
            names = (*key, *order[:-1], DELETED, *columns)
            found = known.join(keys if few is None else few, list(key), "left_semi")
            known = _as_events(found, rows, kind, names)
            if not latest_alone:  # all versions are there
                known = forgotten(known, order)
            known = known.withColumn(_KNOWN, F.lit(True))
            if frames.is_small:  # planning it with each round takes longer than its rows
                known = frames.cut(known)
        return cls(key, order, columns, latest_alone, kind, known, few)

    def given(self, rows: DataFrame, gives: str = "true") -> DataFrame:
        """The events with the values that they lack.

        That is the value of the event before, of those that the condition `gives` (SQL) selects, or
        of the version that is known. Adds `_no_earlier: boolean`, whether there is none.
        """
        lacks = F.filter(LACKS, lambda name: name.isin(list(self.columns)))
        rows = rows.withColumns({PARTIAL: as_partial(self.kind, lacks), _KNOWN: F.lit(False)})
        every, others = rows, None
        if self.few is not None:
            every = rows.join(self.few, list(self.key), "left_semi")
            others = rows.join(self.few, list(self.key), "left_anti")
        if self.known is not None:
            every = every.unionByName(self.known, allowMissingColumns=True)
        gives = f"({_KNOWN} OR {gives})"
        found = with_earlier_values(every, self.key, self.order, self.columns, gives=gives)
        missing = F.exists(F.coalesce(PARTIAL, F.array().cast(self.kind)), lambda e: ~e["known"])
        found = found.withColumn(NO_EARLIER_FLAG, missing)
        if self.known is not None and self.latest_alone:
            found = _by_the_latest(found, self.key, self.order, self.columns)
        found = found.where(~F.col(_KNOWN))
        if others is not None:
            found = found.unionByName(others.withColumn(NO_EARLIER_FLAG, F.lit(False)))
        return found.drop(PARTIAL, _KNOWN)


def _as_events(
    known: DataFrame, rows: DataFrame, kind: ArrayType, names: Sequence[str]
) -> DataFrame:
    """The versions of a table, with these columns of events and their types."""
    there = {name.lower(): name for name in known.columns}
    if PARTIAL in known.columns:
        partial = F.col(PARTIAL).cast(kind)
    else:
        lacks = F.col(LACKS) if LACKS in known.columns else F.expr(NOTHING)
        partial = as_partial(kind, lacks)
    named = F.filter(partial, lambda entry: entry["column"].isin([*names, OTHERS]))
    hashed = F.col(HASH) if HASH in known.columns else F.lit("")
    found = (
        (F.col(quoted(there[name.lower()])) if name.lower() in there else F.lit(None))
        .cast(rows.schema[name].dataType)
        .alias(name)
        for name in dict.fromkeys(names)
    )
    return known.select(*found, named.alias(PARTIAL), hashed.alias(HASH))


def _by_the_latest(
    rows: DataFrame, key: Sequence[str], order: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    values = ", ".join(f"{quoted(name)} AS {quoted(name)}" for name in columns)
    at = ", ".join(map(quoted, order[:-1]))
    of_key = f"OVER (PARTITION BY {', '.join(map(quoted, key))})"
    is_row = f"{_KNOWN} AND NOT {DELETED}"
    rows = rows.withColumn(
        _LATEST,
        F.expr(
            f"max_by(struct(struct({at}) AS at, struct({values}) AS row), "
            f"CASE WHEN {is_row} THEN struct({at}) END) {of_key}"
        ),
    )
    is_older = F.expr(f"{NO_EARLIER_FLAG} AND struct({at}) <= {_LATEST}.at")
    value = {
        name: F.when(
            is_older & F.array_contains(LACKS, name),
            F.coalesce(quoted(name), F.col(_LATEST)["row"][name]),
        ).otherwise(F.col(quoted(name)))
        for name in columns
    }
    judged = F.col(NO_EARLIER_FLAG) & ~F.coalesce(is_older, F.lit(False))
    return rows.withColumns({**value, NO_EARLIER_FLAG: judged}).drop(_LATEST)


def _as_they_came(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The events, once they are judged, without the values that they lack."""
    lacks = {name: F.when(~F.array_contains(LACKS, name), F.col(quoted(name))) for name in columns}
    return with_columns(rows, lacks).drop(NO_EARLIER_FLAG)


def events_with_reasons(
    request: ReadRequest,
    frames: Frames,
    rows: DataFrame,
    reasons: Sequence[Column],
    live: Column,
    lacking: Lacking | None,
    own: Sequence[str],
    order: Sequence[str],
    ordered_by: str,
) -> DataFrame:
    """Events of a loader's log with `_reasons`.

    Where they may be `lacking` fields, they are judged with the values that they lack.
    """
    if lacking is None:
        return request.with_reasons(rows, reasons, live, keyed=False, ordered_by=ordered_by)
    columns, state = lacking.columns(own, request.key), request.state
    known = known_events(frames, state)
    if lacking.asks_for_earlier:
        never = [name for name in lacking.marked if name not in own]
        no_column = F.exists(LACKS, lambda name: name.isin(never))
        reasons = [*reasons, F.when(F.col(NO_EARLIER_FLAG) | no_column, F.lit(NO_EARLIER))]

    def judged(rows: DataFrame) -> DataFrame:
        return request.with_reasons(rows, reasons, live, keyed=False, ordered_by=ordered_by)

    latest_alone = state.write.keeps_latest
    return judged_again(
        frames, rows, known, request.key, order, columns, judged, latest_alone=latest_alone
    )


def judged_again(
    frames: Frames,
    rows: DataFrame,
    known: DataFrame | None,
    key: Sequence[str],
    order: Sequence[str],
    columns: Sequence[str],
    judge: Callable[[DataFrame], DataFrame],
    *,
    latest_alone: bool,
) -> DataFrame:
    """The events, which may lack `columns`, judged with the values of the good ones before them.

    First with those of any: which are good is only known then. Nearly always all are that may have
    given a value. Else again, until the good ones are those whose values were given. `known` are
    the versions that the table has; where of a key it has the `latest_alone`, an event that is
    older than it, and so will change little, is judged by its values.
    """
    if not columns:  # nobody has a value of another
        return judge(rows.withColumn(NO_EARLIER_FLAG, F.lit(False))).drop(NO_EARLIER_FLAG)
    rows = frames.cut(rows)
    values = _EarlierValues.of(frames, rows, known, key, order, columns, latest_alone=latest_alone)

    def judged(rows: DataFrame, gives: str) -> DataFrame:
        return frames.cut(_as_they_came(judge(values.given(rows, gives)), columns))

    found = judged(rows, "true")
    if found.where(_BAD).isEmpty() or not _bad_ones_give(found, key, order[:-1]):
        return found
    for _ in range(_MOST_ROUNDS):
        found = judged(found.withColumn(_WAS_GOOD, F.expr(f"NOT {_BAD}")).drop(REASONS), _WAS_GOOD)
        differ = found.where(f"{_WAS_GOOD} = ({_BAD})")
        found = found.drop(_WAS_GOOD)
        if differ.isEmpty():
            break
    return found


def _bad_ones_give(found: DataFrame, key: Sequence[str], position: Sequence[str]) -> bool:
    """Whether an event may have the value of another that was found bad."""
    at = F.struct(*map(quoted, position))
    of_key = found.groupBy(*map(quoted, key)).agg(
        F.min(F.when(F.expr(_BAD), at)).alias("bad"),
        F.max(F.when(F.size(LACKS) > 0, at)).alias("lacks"),
        F.count("*").alias("events"),
    )
    return not of_key.where("events > 1 AND bad <= lacks").isEmpty()


def known_events(frames: Frames, state: TargetState) -> DataFrame | None:
    """What a target and its side table know of its keys, with `_deleted`; None before its table."""
    if state.version is None or not state.columns:
        return None
    rows = state.read(frames.session).withColumn(DELETED, F.lit(False))
    side = state.superseded(frames.session)
    return with_side_rows(rows, side, latest_alone=state.write.keeps_latest)


def with_side_rows(rows: DataFrame, side: DataFrame | None, *, latest_alone: bool) -> DataFrame:
    """The rows of a table with those of its side table that are changes of their own.

    The side table of a table with the `latest_alone` has tombstones, and the names of conflicts.
    """
    if side is None:
        return rows
    changes = side.where(DELETED) if latest_alone else side
    return rows.unionByName(changes, allowMissingColumns=True)


def with_partial(
    rows: DataFrame,
    lacking: Lacking | None,
    own: Collection[str],
    order: Sequence[str],
    table: Collection[str],
) -> DataFrame:
    """The events with `_partial`, where they may lack columns, or some row of the table does.

    `own` are the columns of the events, `table` those of the table.
    """
    kind = partial_type(rows.schema, order)
    if lacking is not None:
        return rows.withColumn(PARTIAL, lacking.partial(own, kind)).drop(LACKS, IS_WHOLE)
    if PARTIAL in table:
        return rows.withColumn(PARTIAL, F.lit(None).cast(kind))
    return rows
