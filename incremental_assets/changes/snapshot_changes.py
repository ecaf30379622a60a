"""What differs between a snapshot and the one before, which is stored with the hash of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.request import ReadRequest
from incremental_assets.delta.columns import BATCH, DELETED, HASH, ORDER, is_reserved
from incremental_assets.delta.delta_log import FENCE, find_commit
from incremental_assets.delta.delta_table import (
    add_columns,
    ensure_table,
    field_of,
    open_table,
    version_of,
)
from incremental_assets.delta.merge import TO_DELETE, merge
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import plain_files, read_files, read_version
from incremental_assets.delta.side_table import (
    abandon_side_rows,
    fence_side_table,
    put_side_rows,
)
from incremental_assets.delta.stage import folder_of
from incremental_assets.delta.transaction import Transaction
from incremental_assets.errors import LakeError, SourceError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.reasons import is_good
from incremental_assets.row_hash import row_hash

CHANGE = "_change"
QUARANTINED = "quarantined"
SHOWN = "_shown"
_BEFORE = "_before_"


def changes_of(session: SparkSession, snapshot: str, key: Sequence[str], batch: int) -> DataFrame:
    """What a batch found: the source's own columns and `_change`, insert, update or delete."""
    path = _changes_table(snapshot)
    if open_table(path) is None:
        keys = [F.lit(None).cast("string").alias(name) for name in (*key, CHANGE)]
        return session.range(0).select(*keys)
    rows = read_version(
        session, path, version_of(path), lambda file: file.may_hold_batches(batch - 1, batch)
    )
    return rows.where(F.col(BATCH) == batch).drop(BATCH)


def previous_snapshot(
    session: SparkSession, snapshot: str, own: Mapping[str, DataType], ignore: Sequence[str]
) -> DataFrame | None:
    """The snapshot before, with `_shown` by today's version of the hash."""
    if open_table(snapshot) is None:
        return None
    table = plain_files(snapshot, version_of(snapshot))
    rows = read_files(session, table, table.files)
    there = {f.name: f.dataType for f in rows.schema.fields if not is_reserved(f.name)}
    missing = [name for name in own if name not in there]
    rows = rows.withColumns({n: F.lit(None).cast(own[n]) for n in missing}) if missing else rows
    types = {name: there.get(name, kind) for name, kind in own.items()} | there
    return rows.withColumn(SHOWN, row_hash(types, ignore=ignore))


def keep_snapshot(
    frames: Frames,
    snapshot: str,
    name: str,
    changed: DataFrame,
    own: Mapping[str, DataType],
    key: Sequence[str],
    batch: int,
) -> None:
    """Bring the stored snapshot up to the new one: only the rows that differ are written.

    They are stored as well, as the changes that the load found.
    """
    number = F.lit(batch).cast("long").alias(BATCH)
    found = changed.select(number, *map(quoted, (*own, CHANGE)))
    columns = [(BATCH, "long"), (CHANGE, "string")]
    put_side_rows(found, _changes_table(snapshot), _changes_of(name), batch, columns)
    fields = [field_of(changed.schema[n]) for n in (*own, HASH)]
    every = [(BATCH, "long"), *((field["name"], field["type"]) for field in fields)]
    ensure_table(snapshot, f"snapshot of {name}", every, ())
    add_columns(snapshot, fields)
    incoming = changed.select(number, *map(quoted, own), HASH, F.col(DELETED).alias(TO_DELETE))
    write, _ = merge(frames, incoming, snapshot, folder_of(name, batch), key, F.lit(True), day=None)
    publish(
        write.staged,
        Transaction(name, batch, f'{{"batch":{batch}}}'),
        replaced_files=write.replaced,
        searched_files=write.scope,
    )


def restore_snapshot(snapshot: str, name: str, batch: int) -> None:
    """Put the snapshot back to what it was before an abandoned batch."""
    if not snapshot:
        return
    abandon_side_rows(_changes_table(snapshot), _changes_of(name), batch)
    if open_table(snapshot) is None:
        return
    fence_side_table(snapshot, name, batch)
    commit = find_commit(snapshot, name, batch)
    if commit is None or commit.note.get(FENCE):
        return
    try:
        DeltaTable(snapshot).restore(commit.version - 1)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{name}: the snapshot {snapshot} cannot be put back to its version "
            f"{commit.version - 1} ({error}). Run again; if it fails again, restore it by hand."
        ) from error


def _changes_table(snapshot: str) -> str:
    return f"{snapshot}/_changes"


def _changes_of(name: str) -> str:
    return f"changes of {name}"


def snapshot_changes(
    snapshot: DataFrame,
    previous: DataFrame | None,
    key: Sequence[str],
    own: Mapping[str, DataType],
    at: datetime,
) -> DataFrame:
    """The rows that differ: `_change` is insert, update or delete; a deleted row as it was."""
    names = [*own, HASH, "_file", "_raw", "_reasons", ORDER]
    new = snapshot.select(*map(quoted, names), SHOWN)
    quarantined = ~is_good()
    if previous is None:
        return new.withColumns({CHANGE: F.lit("insert"), DELETED: F.lit(False)}).drop(SHOWN)
    old = previous.select(
        *(F.col(quoted(n)).alias(f"{_BEFORE}{n}") for n in own),
        F.col(SHOWN).alias(f"{_BEFORE}{SHOWN}"),
    )
    same_key = reduce(
        Column.__and__,
        (F.col(quoted(n)) == F.col(quoted(f"{_BEFORE}{n}")) for n in key),
    )
    joined = new.join(old, same_key, "full_outer")
    there, was = F.col(HASH).isNotNull(), F.col(f"{_BEFORE}{SHOWN}").isNotNull()
    differs = F.col(SHOWN) != F.col(f"{_BEFORE}{SHOWN}")
    kind = (
        F.when(there & ~was, F.lit("insert"))
        .when(there & (differs | quarantined), F.lit("update"))
        .when(~there, F.lit("delete"))
    )
    deleted = F.col(CHANGE) == "delete"
    values = {
        n: F.when(deleted, F.col(quoted(f"{_BEFORE}{n}"))).otherwise(F.col(quoted(n))) for n in own
    }
    found = joined.withColumn(CHANGE, kind).where(F.col(CHANGE).isNotNull())
    found = found.withColumns(values).withColumns(
        {
            DELETED: deleted,
            HASH: F.coalesce(HASH, F.lit("")),
            ORDER: F.lit(at).cast("timestamp_ltz"),
            "_reasons": F.coalesce("_reasons", F.array().cast("array<string>")),
        }
    )
    return found.select(*map(quoted, names), CHANGE, DELETED)


def refuse_duplicates(request: ReadRequest, snapshot: DataFrame) -> None:
    key = [quoted(name) for name in request.key]
    good = snapshot.where(is_good())
    twice = good.groupBy(*key).count().where("count > 1").limit(6).collect()
    if twice:
        shown = [", ".join(str(row[name]) for name in request.key) for row in twice[:5]]
        more = " and others" if len(twice) > 5 else ""
        raise SourceError(
            f"{request.name}: the snapshot {request.source.path} holds keys "
            f"({', '.join(request.key)}) more than once: {'; '.join(shown)}{more}. Nobody can say "
            "which row is right, so nothing was loaded; name a key that is unique, or repair it."
        )
