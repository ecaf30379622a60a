"""Changes between a full copy of a table and the copy before it.

The copy before is kept as a Delta table of its own, with the hash of each row. It moves on just
before the target is published: if the load dies in between, settling puts it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import reduce

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.row_hash import HASH_VERSION, row_hash
from incremental_assets.changes.watermark import Seen, as_text, instant
from incremental_assets.errors import LakeError, SnapshotError, SourceError
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.gate import is_good, judge, with_reasons
from incremental_assets.intake.intake import BATCH, HASH, ORDER, Intake
from incremental_assets.intake.late_snapshot import late_changes
from incremental_assets.intake.rows import (
    own_types,
    require_columns,
    require_no_lines,
    unseen,
    with_order,
)
from incremental_assets.intake.target import Target
from incremental_assets.lake.beside import abandon_beside, fence_beside, put_beside
from incremental_assets.lake.delta_log import (
    FENCE,
    add_columns,
    ensure_table,
    field_of,
    find_commit,
    open_table,
    version_of,
)
from incremental_assets.lake.history import DELETED
from incremental_assets.lake.merge import GONE, merge
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import read_version
from incremental_assets.lake.transaction import Transaction
from incremental_assets.sources.stored import FixedSource

CHANGE = "_change"
ASIDE = "set aside"
SHOWN = "_shown"
_BEFORE = "_before_"


@contextmanager
def new_by_snapshot(
    session: SparkSession,
    intake: Intake,
    fixed: FixedSource,
    changes: SnapshotDiff,
    target: Target,
    now: datetime,
) -> Iterator[Found | None]:
    """What differs from the snapshot before; None where nothing does.

    Raises SnapshotError for a snapshot that would delete too much, and SourceError for one that
    holds a key twice.
    """
    before = target.position(Position("snapshot diff", ", ".join(changes.key)))
    last = instant(before.high)
    at = intake.at or now
    # A second copy for one moment corrects the first; and a clock that went back makes none late.
    if last is not None and (at == last or (intake.at is None and at < last)):
        at = last + timedelta(microseconds=1)
    if fixed.version is None and not fixed.files:
        yield None  # a snapshot that is missing is no deletion of everything
        return
    with fixed.rows(session, target.known_types()) as source:
        own = own_types(source)
        if not own:
            require_no_lines(intake, source)
            yield None
            return
        require_columns(intake, own, (*changes.key, *changes.ignore, *intake.partition_by))
        rows = with_order(source, own, F.lit(at).cast("timestamp"))
        rows = with_reasons(rows, intake.key, intake.rules, [])
        shown = row_hash(own, ignore=changes.ignore)
        with persisted(rows.withColumn(SHOWN, shown)) as copy:
            keyless = F.count_if(F.col("_raw").isNotNull() | _lacks_key(changes))
            judged = judge(copy, intake.name, intake.rules, {"keyless": keyless})
            if not judged.rows:
                yield None
                return
            _refuse_duplicates(intake, copy)
            if last is not None and at < last:
                damaged = bool(judged.values["keyless"])
                with late_changes(
                    session, intake, changes, target, copy, own, at, keyless=damaged
                ) as late:
                    yield late
                return
            previous = _previous(session, intake, own, changes)
            differing = _changes(copy, previous, changes, own, at)
            notes = list(judged.notes)
            if judged.values["keyless"]:
                # One of them may be the row that seems to be gone.
                differing = differing.where(~F.col(DELETED))
                notes.append("rows without a readable key: no delete is derived from this snapshot")
            aside = unseen(differing.where(~is_good()), target.set_aside(session))
            with persisted(differing.where(is_good()).unionByName(aside)) as changed:
                counts = _counts(changed)
                deletes = counts.get("delete", 0)
                _refuse_deletes(intake, changes, previous, deletes)
                if not counts and intake.at is None:
                    yield None
                    return
                # A row that the gate set aside is not gone: what was known of it stays.
                good = changed.where(is_good())
                state = {"hash_version": HASH_VERSION}
                after = as_text(changes.advanced(last, Seen(at, at, judged.rows, now)))
                yield Found(
                    changed,
                    own,
                    Position("snapshot diff", ", ".join(changes.key), after, state),
                    judged.rows,
                    counts.get(ASIDE, 0),
                    deletes,
                    notes=tuple(notes),
                    prepare=lambda batch: _move_on(session, intake, good, own, batch),
                )


def _lacks_key(changes: SnapshotDiff) -> Column:
    return reduce(Column.__or__, (F.col(quoted(name)).isNull() for name in changes.key))


def _counts(changed: DataFrame) -> dict[str, int]:
    kind = F.when(is_good(), F.col(CHANGE)).otherwise(F.lit(ASIDE)).alias("kind")
    return {row["kind"]: row["count"] for row in changed.groupBy(kind).count().collect()}


def changes_of(session: SparkSession, intake: Intake, batch: int) -> DataFrame:
    """What a batch found: the source's own columns and `_change`, insert, update or delete."""
    if open_table(intake.told) is None:
        keys = [F.lit(None).cast("string").alias(name) for name in (*intake.key, CHANGE)]
        return session.range(0).select(*keys)
    rows = read_version(
        session,
        intake.told,
        version_of(intake.told),
        lambda file: file.may_hold_batches(batch - 1, batch),
    )
    return rows.where(F.col(BATCH) == batch).drop(BATCH)


def undo_snapshot(intake: Intake, batch: int) -> None:
    """Put the snapshot back to what it was before a batch that was given up."""
    if not intake.snapshot:
        return
    abandon_beside(intake.told, intake.told_app, batch)
    if open_table(intake.snapshot) is None:
        return
    fence_beside(intake.snapshot, intake.name, batch)
    commit = find_commit(intake.snapshot, intake.name, batch)
    if commit is None or commit.note.get(FENCE):
        return
    try:
        DeltaTable(intake.snapshot).restore(commit.version - 1)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{intake.name}: the snapshot {intake.snapshot} cannot be put back to its version "
            f"{commit.version - 1} ({error}). Run again; if it fails again, restore it by hand."
        ) from error


def _previous(
    session: SparkSession, intake: Intake, own: Mapping[str, DataType], changes: SnapshotDiff
) -> DataFrame | None:
    """The copy before, with `_shown` by today's version of the hash."""
    if open_table(intake.snapshot) is None:
        return None
    rows = Target.read(session, intake.snapshot)
    there = {f.name: f.dataType for f in rows.schema.fields if not f.name.startswith("_")}
    missing = [name for name in own if name not in there]
    rows = rows.withColumns({n: F.lit(None).cast(own[n]) for n in missing}) if missing else rows
    types = {name: there.get(name, kind) for name, kind in own.items()} | there
    return rows.withColumn(SHOWN, row_hash(types, ignore=changes.ignore))


def _changes(
    copy: DataFrame,
    previous: DataFrame | None,
    changes: SnapshotDiff,
    own: Mapping[str, DataType],
    at: datetime,
) -> DataFrame:
    """The rows that differ: `_change` is insert, update or delete; a deleted row as it was."""
    names = [*own, HASH, "_file", "_raw", "_reasons", ORDER]
    new = copy.select(*map(quoted, names), SHOWN)
    aside = ~is_good()
    if previous is None:
        return new.withColumns({CHANGE: F.lit("insert"), DELETED: F.lit(False)}).drop(SHOWN)
    old = previous.select(
        *(F.col(quoted(n)).alias(f"{_BEFORE}{n}") for n in own),
        F.col(SHOWN).alias(f"{_BEFORE}{SHOWN}"),
    )
    same_key = reduce(
        Column.__and__,
        (F.col(quoted(n)) == F.col(quoted(f"{_BEFORE}{n}")) for n in changes.key),
    )
    joined = new.join(old, same_key, "full_outer")
    there, was = F.col(HASH).isNotNull(), F.col(f"{_BEFORE}{SHOWN}").isNotNull()
    differs = F.col(SHOWN) != F.col(f"{_BEFORE}{SHOWN}")
    kind = (
        F.when(there & ~was, F.lit("insert"))
        .when(there & (differs | aside), F.lit("update"))
        .when(~there, F.lit("delete"))
    )
    gone = F.col(CHANGE) == "delete"
    values = {
        n: F.when(gone, F.col(quoted(f"{_BEFORE}{n}"))).otherwise(F.col(quoted(n))) for n in own
    }
    found = joined.withColumn(CHANGE, kind).where(F.col(CHANGE).isNotNull())
    found = found.withColumns(values).withColumns(
        {
            DELETED: gone,
            HASH: F.coalesce(HASH, F.lit("")),
            ORDER: F.lit(at).cast("timestamp"),
            "_reasons": F.coalesce("_reasons", F.array().cast("array<string>")),
        }
    )
    return found.select(*map(quoted, names), CHANGE, DELETED)


def _refuse_duplicates(intake: Intake, copy: DataFrame) -> None:
    key = [quoted(name) for name in intake.key]
    good = copy.where(is_good())
    twice = good.groupBy(*key).count().where("count > 1").limit(6).collect()
    if twice:
        shown = [", ".join(str(row[name]) for name in intake.key) for row in twice[:5]]
        more = " and others" if len(twice) > 5 else ""
        raise SourceError(
            f"{intake.name}: the snapshot {intake.source.path} holds keys "
            f"({', '.join(intake.key)}) more than once: {'; '.join(shown)}{more}. Nobody can say "
            "which row is right, so nothing was loaded; name a key that is unique, or repair it."
        )


def _refuse_deletes(
    intake: Intake, changes: SnapshotDiff, previous: DataFrame | None, deletes: int
) -> None:
    if previous is None or not deletes:
        return
    before = previous.count()
    share = deletes / before
    if share > changes.max_deleted_share:
        raise SnapshotError(
            f"{intake.name}: the snapshot {intake.source.path} would delete {deletes} of "
            f"{before} rows ({share:.1%}), and at most {changes.max_deleted_share:.1%} may go at "
            "once. It is held back and nothing was loaded: look whether it is whole; if it is, "
            "allow the share with max_deleted_share."
        )


def _move_on(
    session: SparkSession,
    intake: Intake,
    changed: DataFrame,
    own: Mapping[str, DataType],
    batch: int,
) -> None:
    """Bring the kept copy up to the new one: only the rows that differ are written.

    They are written down as well, for whoever asks what the load found.
    """
    names = (*own, CHANGE)
    told = changed.select(F.lit(batch).cast("long").alias(BATCH), *map(quoted, names))
    put_beside(told, intake.told, intake.told_app, batch, [(BATCH, "long"), (CHANGE, "string")])
    fields = [field_of(changed.schema[n]) for n in (*own, HASH)]
    columns = [(BATCH, "long"), *((field["name"], field["type"]) for field in fields)]
    ensure_table(intake.snapshot, f"snapshot of {intake.name}", columns, ())
    add_columns(intake.snapshot, fields)
    incoming = changed.select(
        F.lit(batch).cast("long").alias(BATCH),
        *(quoted(n) for n in own),
        HASH,
        F.col(DELETED).alias(GONE),
    )
    folder = intake.folder(batch)
    merged = merge(session, incoming, intake.snapshot, folder, intake.key, F.lit(True), day=None)
    publish(
        merged.staged,
        Transaction(intake.name, batch, f'{{"batch":{batch}}}'),
        replaced_files=merged.replaced,
        looked_at=merged.scope,
    )
