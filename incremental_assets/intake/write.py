"""How the good rows of a batch are staged and published, by the write strategy of the intake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from incremental_assets.changes.row_hash import row_hash
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.intake.found import Found
from incremental_assets.intake.gate import is_good
from incremental_assets.intake.intake import BATCH, HASH, ORDER, TABLE, Intake
from incremental_assets.intake.target import Target
from incremental_assets.lake.beside import put_beside
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.history import DELETED, WHY, Versions, merge_history
from incremental_assets.lake.merge import (
    GONE,
    LOST,
    OLD,
    Merged,
    Ties,
    delete_insert,
    last_of_each,
    merge,
)
from incremental_assets.lake.read import plain_files
from incremental_assets.lake.stage import stage
from incremental_assets.lake.strategy import (
    SCD2,
    Append,
    DeleteInsert,
    Merge,
    OverwriteDays,
    ReplaceDay,
)

_TRUNCATE = "_truncated_at"
BESIDE = ((BATCH, "long"), (TABLE, "string"), (DELETED, "boolean"), (WHY, "string"))


@dataclass(frozen=True, slots=True)
class Written:
    """What was staged, and which partitions of a column it replaces, if it replaces any."""

    merged: Merged
    replaced_by: tuple[str, tuple[Any, ...]] | None = None

    @property
    def changes(self) -> bool:
        """Whether publishing it would change the table at all."""
        return bool(self.merged.staged.files or self.merged.replaced or self.replaced_by)


def write(
    session: SparkSession, intake: Intake, target: Target, found: Found, batch: int
) -> Written:
    """Stage the good rows as the intake's strategy says."""
    good = conformed(found.rows.where(is_good()), found.own, target.columns)
    strategy = intake.write
    match strategy:
        case Append():
            staged = stage(_columns(good, intake, found, batch), *_place(intake, batch))
            return Written(Merged(staged, (), {None: found.read - found.quarantined}))
        case Merge():
            return Written(_merge(session, intake, target, found, good, batch))
        case SCD2():
            return Written(write_history(session, intake, target, found, good, batch))
        case DeleteInsert():
            _remember(intake, found, good, batch)
            rows = _columns(good, intake, found, batch)
            merged = delete_insert(session, rows, intake.target, intake.folder(batch), intake.key)
            return Written(replace(merged, inserted={None: found.read - found.quarantined}))
        case OverwriteDays() | ReplaceDay():
            days = _days(good, strategy.day)
            rows = good
            if isinstance(strategy, OverwriteDays):
                _remember(intake, found, good, batch)
            if isinstance(strategy, ReplaceDay) and found.whole is not None:
                every = found.whole(strategy.day, days).where(is_good())
                rows = conformed(every, found.own, target.columns)
            staged = stage(_columns(rows, intake, found, batch), *_place(intake, batch))
            inserted = sum(file.rows for file in staged.files)
            replaced_by = (strategy.day, days) if days else None
            return Written(Merged(staged, (), {None: inserted}), replaced_by)
        case _:
            assert_never(strategy)


def _merge(
    session: SparkSession,
    intake: Intake,
    target: Target,
    found: Found,
    good: DataFrame,
    batch: int,
) -> Merged:
    place = intake.order[:-1]  # without the hash
    rows = ranked(good, intake)
    markers = _markers(session, intake, target)
    here, there = _struct(place), _struct(place, f"{OLD}.")
    if markers is not None:
        rows = rows.join(markers, list(intake.key), "left")
        later = f"_marker IS NULL OR {here} > _marker OR (NOT {DELETED} AND {here} = _marker)"
        rows = rows.where(f"{later} OR {LOST}").drop("_marker")
    if found.deletes:
        deletes = rows.where(f"{DELETED} AND NOT {LOST}").drop(LOST)
        keep_beside(intake, found, deletes.withColumn(WHY, F.lit("deleted")), batch)
    incoming = rows.selectExpr(
        f"CAST({batch} AS bigint) AS {BATCH}",
        *(quoted(n) for n in (*found.own, *intake.order)),
        DELETED,
        LOST,
        f"{DELETED} OR {LOST} AS {GONE}",
    )
    # Among changes at one place a row beats a delete, then the greater hash wins.
    tied = f"NOT {DELETED} AND {here} <=> {there}"
    beats = f"{here} > {there} OR ({tied} AND {HASH} > coalesce({OLD}.{HASH}, ''))"
    if intake.first_by:
        copy = f"{tied} AND {HASH} = {OLD}.{HASH}"
        beats = f"{beats} OR ({copy} AND {intake.first_by} < {OLD}.{intake.first_by})"
    tie = f"{LOST} OR ({OLD} IS NOT NULL AND {tied} AND {HASH} != {OLD}.{HASH})"

    def record(pairs: DataFrame) -> None:
        ties = pairs.selectExpr(
            *(quoted(n) for n in (*intake.key, *place)),
            f"if({LOST}, {HASH}, least({HASH}, {OLD}.{HASH})) AS {HASH}",
            f"false AS {DELETED}",
            f"'lost by its hash alone' AS {WHY}",
        )
        keep_beside(intake, found, ties, batch, intake.ties_app)

    return merge(
        session,
        incoming,
        intake.target,
        intake.folder(batch),
        intake.key,
        F.expr(f"({beats}) AND NOT {LOST}"),
        (*intake.order, *([intake.first_by] if intake.first_by else [])),
        day=None,
        ties=Ties(F.expr(tie), record),
        marks=(DELETED, LOST),
    )


def write_history(
    session: SparkSession,
    intake: Intake,
    target: Target,
    found: Found,
    good: DataFrame,
    batch: int,
    *,
    anew: str = "",
    keys: DataFrame | None = None,
    held: str = "",
) -> Merged:
    """Stage the versions of the changes' keys.

    With `anew`, those of the `keys` are derived from `good` and from what lies beside the target
    and does not meet this condition, whatever the target held but for what meets `held`.
    """
    assert isinstance(intake.write, SCD2)
    if DELETED not in good.columns:
        good = good.withColumn(DELETED, F.lit(False))
    names = [quoted(n) for n in (*found.own, *intake.order)]
    own = dict(target.known_types()) | dict(found.own)
    ignored = {name.lower() for name in intake.write.ignore_changes_in}
    shown = row_hash({n: t for n, t in own.items() if n.lower() not in ignored})
    beside = next(iter(target.side(session, intake.beside)), None)
    if beside is not None and anew:
        beside = beside.where(f"NOT ({anew})")
    return merge_history(
        session,
        good.select(*names, DELETED),
        beside,
        intake.target,
        batch,
        intake.folder(batch),
        Versions(intake.key, intake.order, shown, intake.first_by, intake.clock),
        lambda hidden: keep_beside(intake, found, hidden, batch),
        anew=keys if anew else None,
        held=held,
    )


def _remember(intake: Intake, found: Found, good: DataFrame, batch: int) -> None:
    """Note the rows that are loaded: the target may lose them, and they must not come again."""
    rows = good.select(ORDER, HASH, F.lit("loaded").alias(WHY), F.lit(False).alias(DELETED))
    keep_beside(intake, found, rows, batch)


def ranked(good: DataFrame, intake: Intake) -> DataFrame:
    """The last change of each key, and the rows that only their hash made lose against it."""
    if DELETED not in good.columns:
        good = good.withColumn(DELETED, F.lit(False))
    place = intake.order[:-1]
    latest = ", ".join(f"{name} DESC NULLS LAST" for name in place)
    first = f", {intake.first_by}" if intake.first_by else ""
    order = f"{latest}, {DELETED}, {HASH} DESC{first}"
    key = intake.key
    if intake.changes.is_log:  # each truncate is kept: another may be taken back
        nobody = f"{DELETED} AND {quoted(key[0])} IS NULL"
        good = good.withColumn(_TRUNCATE, F.expr(f"CASE WHEN {nobody} THEN {_struct(place)} END"))
        key = (*key, _TRUNCATE)
    rows = last_of_each(good, key, order, _struct((*place, DELETED)), f"NOT {DELETED}")
    return rows.drop(_TRUNCATE)


def _markers(session: SparkSession, intake: Intake, target: Target) -> DataFrame | None:
    """The last delete of each key that was ever deleted, as a struct of its place."""
    for rows in target.side(session, intake.beside):
        place = F.struct(*intake.order[:-1])
        deletes = rows.where(DELETED)
        return deletes.groupBy(*(quoted(n) for n in intake.key)).agg(F.max(place).alias("_marker"))
    return None


def keep_beside(intake: Intake, found: Found, rows: DataFrame, batch: int, app: str = "") -> None:
    """Put rows that the target does not show beside it, with the batch and why."""
    there = {*found.own, *intake.order, DELETED, WHY}
    named = rows.select(
        *(quoted(n) for n in rows.columns if n in there),
        F.lit(batch).cast("long").alias(BATCH),
        F.lit(intake.name).alias(TABLE),
    )
    put_beside(named, intake.beside, app or intake.beside_app, batch, BESIDE)


def _columns(rows: DataFrame, intake: Intake, found: Found, batch: int) -> DataFrame:
    number = F.lit(batch).cast("long").alias(BATCH)
    return rows.select(number, *(quoted(n) for n in (*found.own, *intake.order)))


def _place(intake: Intake, batch: int) -> tuple[str, str, tuple[str, ...]]:
    """Where a table that may have been there before is partitioned as it is."""
    table = plain_files(intake.target, version_of(intake.target))
    return intake.target, intake.folder(batch), table.partition_by


def _days(rows: DataFrame, day: str) -> tuple[Any, ...]:
    kind = rows.schema[day].dataType.typeName()
    if kind.startswith("timestamp"):
        raise DefinitionError(
            f"{day!r} is a {kind}, and a partition that is replaced has to be a day; use a date "
            "column."
        )
    return tuple(row[0] for row in rows.select(quoted(day)).distinct().collect())


def _struct(names: Sequence[str], prefix: str = "") -> str:
    """The SQL of a struct of these columns, which are the load's own."""
    return f"struct({', '.join(f'{prefix}{name} AS {name}' for name in names)})"


def conformed(
    rows: DataFrame, own: Mapping[str, DataType], columns: Mapping[str, DataType]
) -> DataFrame:
    """The rows in the types and spelling of the target's columns, where nothing is lost by it.

    Others are left as they are; publishing refuses them and names both types.
    """
    there = {name.lower(): (name, kind) for name, kind in columns.items()}
    changed: dict[str, Column] = {}
    for name, kind in {f.name: f.dataType for f in rows.schema.fields}.items():
        known = there.get(name.lower())
        if known is not None and known[1] != kind and _fits(kind, known[1]):
            changed[name] = F.col(quoted(name)).cast(known[1])
    return rows.withColumns(changed) if changed else rows


_WIDER = (
    "byte",
    "short",
    "integer",
    "long",
)


def _fits(kind: DataType, into: DataType) -> bool:
    """Whether every value of a type is also one of another."""
    a, b = kind.typeName(), into.typeName()
    if a in _WIDER and b in _WIDER:
        return _WIDER.index(a) < _WIDER.index(b)
    if isinstance(into, DecimalType):
        digits = into.precision - into.scale
        if isinstance(kind, DecimalType):
            return kind.scale <= into.scale and kind.precision - kind.scale <= digits
        return a in _WIDER and digits >= (3, 5, 10, 19)[_WIDER.index(a)]
    return (a, b) in {("float", "double"), ("date", "timestamp"), ("void", b)}
