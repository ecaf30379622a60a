"""What differs between a snapshot and the one before, which is stored with the hash of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.request import ReadRequest
from incremental_assets.delta.columns import BATCH, DELETED, HASH, ORDER, is_reserved
from incremental_assets.delta.delta_log import FENCE, find_commit, transaction
from incremental_assets.delta.delta_table import (
    add_columns,
    ensure_table,
    field_of,
    open_table,
    version_of,
)
from incremental_assets.delta.lookup import FEW_KEYS, LARGE_BYTES
from incremental_assets.delta.merge import TO_DELETE, join_by_key, merge
from incremental_assets.delta.read import plain_files, read_files, read_version
from incremental_assets.delta.side_table import abandon_side_rows, fence_side_table
from incremental_assets.delta.stage import discard_batch, folder_of
from incremental_assets.delta.staged_write import SideRows, SideWrite
from incremental_assets.errors import IncrementalAssetsError, LakeError, SourceError
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.quality.reasons import is_good
from incremental_assets.row_hash import HASH_VERSION, row_hash
from incremental_assets.storage import open_file

CHANGE = "_change"
QUARANTINED = "quarantined"
SHOWN, IN_SCOPE = "_shown", "_in_scope"
_ROWS, _GOOD_ROWS = "_of_rows", "_of_good_rows"
_NOW, _WAS = "_of_now", "_of_before"
_AT_ONCE = 16
_BY_TODAY = f"{HASH_VERSION}:"
_CHANGES_COLUMNS = ((BATCH, "long"), (CHANGE, "string"))


def changes_of(session: SparkSession, snapshot: str, key: Sequence[str], batch: int) -> DataFrame:
    """What a batch found: the source's own columns and `_change`, insert, update or delete."""
    path = _changes_table(snapshot)
    table = open_table(path)
    if table is None or not table.file_uris():  # it may be there to fence a load that died
        keys = [F.lit(None).cast("string").alias(name) for name in (*key, CHANGE)]
        return session.range(0).select(*keys)
    rows = read_version(
        session, path, version_of(path), lambda file: file.may_hold_batches(batch - 1, batch)
    )
    return rows.where(F.col(BATCH) == batch).drop(BATCH)


def previous_snapshot(
    session: SparkSession, snapshot: str, own: Mapping[str, DataType], ignore: Sequence[str]
) -> DataFrame | None:
    """The snapshot before, with `_shown` by today's version of the hash; None without rows.

    Without a file it may lack columns: it was created to fence a load that died.
    """
    stored = open_table(snapshot)
    if stored is None or not stored.file_uris():
        return None
    table = plain_files(snapshot, stored.version())
    rows = read_files(session, table, table.files)
    there = {f.name: f.dataType for f in rows.schema.fields if not is_reserved(f.name)}
    missing = [name for name in own if name not in there]
    rows = with_columns(rows, {n: F.lit(None).cast(own[n]) for n in missing})
    types = {name: there.get(name, kind) for name, kind in own.items()} | there
    shown = row_hash(types, ignore=ignore)
    # A row is stored with its hash; it is taken again where another version of it would differ.
    if not ignore and HASH in rows.columns and all(types[n] == own[n] for n in own):
        by_today = F.col(HASH).startswith(_BY_TODAY)
        files = [f"{snapshot}/{file.path}" for file in table.files]
        # Of a column that may be read, Spark reads all that it is made from.
        shown = (
            F.col(HASH) if _are_by_today(files) else F.when(by_today, F.col(HASH)).otherwise(shown)
        )
    return rows.withColumn(SHOWN, shown)


def _are_by_today(files: Sequence[str]) -> bool:
    """Whether each hash in these data files is of today's version."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return all(pool.map(_is_by_today, files))  # one that is not ends it: the rest is cancelled


def _is_by_today(file: str) -> bool:
    """Whether each hash in a data file is of today's version, by its footer: no row is read."""
    try:
        with open_file(file) as stream:
            footer = pq.read_metadata(stream)
    except (pa.ArrowException, OSError):
        return False  # Spark reads it, or reports why it cannot
    names = [footer.schema.column(at).path for at in range(footer.num_columns)]
    if HASH not in names:
        return False
    groups = (footer.row_group(at) for at in range(footer.num_row_groups))
    found = [group.column(names.index(HASH)).statistics for group in groups]
    return all(
        each is not None and each.has_min_max and _starts_as_today(each.min, each.max)
        for each in found
    )


def _starts_as_today(*bounds: str) -> bool:
    return all(bound.startswith(_BY_TODAY) for bound in bounds)


def with_scope(previous: DataFrame, snapshot: DataFrame, scope: Sequence[str]) -> DataFrame:
    """The rows of the snapshot before with `_in_scope`: the new one covers their unit.

    It covers the values of the columns `scope` that its rows have; a null is a value, too, but one
    that could not be read is none.
    """
    if not scope:
        return previous.withColumn(IN_SCOPE, F.lit(True))
    unknown = F.arrays_overlap("_unreadable", F.array(*map(F.lit, scope)))
    readable = snapshot.where(F.col("_raw").isNull() & ~F.coalesce(unknown, F.lit(False)))
    units = readable.selectExpr(*map(quoted, scope)).distinct()
    marked = units.withColumn(IN_SCOPE, F.lit(True))
    joined = join_by_key(previous, marked, scope, "left", nulls=True)
    return joined.withColumn(IN_SCOPE, F.coalesce(IN_SCOPE, F.lit(False)))


def stage_snapshot(
    frames: Frames,
    snapshot: str,
    name: str,
    changed: DataFrame,
    own: Mapping[str, DataType],
    key: Sequence[str],
    batch: int,
) -> tuple[SideRows, SideWrite]:
    """Stage the stored snapshot as the new one: only the rows that differ are written.

    They are stored as well, first, as the changes that the load found. The table is there before,
    with the columns of the new one.
    """
    number = F.lit(batch).cast("long").alias(BATCH)
    found = changed.select(number, *map(quoted, (*own, CHANGE)))
    changes = SideRows(_changes_table(snapshot), _changes_of(name), found, _CHANGES_COLUMNS)
    fields = [field_of(changed.schema[n]) for n in (*own, HASH)]
    every = [(BATCH, "long"), *((field["name"], field["type"]) for field in fields)]
    ensure_table(snapshot, f"snapshot of {name}", every, ())
    add_columns(snapshot, fields)
    incoming = changed.select(number, *map(quoted, own), HASH, F.col(DELETED).alias(TO_DELETE))
    write, _ = merge(frames, incoming, snapshot, folder_of(name, batch), key, F.lit(True), day=None)
    return changes, SideWrite(name, write)


def restore_snapshot(snapshot: str, name: str, batch: int) -> None:
    """Put the snapshot back to what it was before an abandoned batch.

    Its writer may still be alive, so its number is fenced, also where it is the first one.
    """
    if not snapshot:
        return
    changes = _changes_table(snapshot)
    abandon_side_rows(changes, _changes_of(name), batch, columns=_CHANGES_COLUMNS)
    ensure_table(snapshot, f"snapshot of {name}", [(BATCH, "long")], ())
    fence_side_table(snapshot, name, batch)
    if transaction(snapshot, name) > batch:  # another run has settled it, and a later one loaded
        return
    commit = find_commit(snapshot, name, batch)
    if commit is None or commit.note.get(FENCE):
        with suppress(IncrementalAssetsError, OSError):  # maintenance removes what stays
            discard_batch(snapshot, name, batch)
        return
    try:
        DeltaTable(snapshot).restore(commit.version - 1)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{name}: the snapshot {snapshot} cannot be restored to its version "
            f"{commit.version - 1} ({error}). Run again; if it fails again, restore it by hand."
        ) from error


def _changes_table(snapshot: str) -> str:
    return f"{snapshot}/_changes"


def _changes_of(name: str) -> str:
    return f"changes of {name}"


def marked(rows: DataFrame, own: Mapping[str, DataType], change: Column | str) -> DataFrame:
    """Rows of a snapshot as changes of one kind that delete nothing."""
    kind = F.lit(change) if isinstance(change, str) else change
    return rows.select(*map(quoted, _names(own)), kind.alias(CHANGE), F.lit(False).alias(DELETED))


def snapshot_changes(
    frames: Frames,
    request: ReadRequest,
    snapshot: DataFrame,
    previous: DataFrame,
    own: Mapping[str, DataType],
    at: datetime,
) -> DataFrame:
    """The good rows that differ: `_change` is insert, update or delete; a deleted row as it was.

    Only the keys and hashes of the two snapshots are shuffled, and then whole rows of the keys that
    differ are read. Raises SourceError for a key that the snapshot holds twice.
    """
    key = list(request.key)
    differing = frames.cache(_differing_keys(snapshot, previous, key))
    counts = differing.groupBy(F.expr(f"{_GOOD_ROWS} > 1").alias("twice")).count().collect()
    if any(row["twice"] for row in counts):
        refuse_duplicates(request, snapshot)
    if sum(row["count"] for row in counts) <= FEW_KEYS and request.source.size() > LARGE_BYTES:
        differing = F.broadcast(differing)
    good = snapshot.where(is_good()).join(differing.where(f"{_ROWS} > 0"), key)
    kind = F.when(F.col(_WAS).isNull(), F.lit("insert")).otherwise(F.lit("update"))
    found = marked(good, own, kind)
    text = F.lit(None).cast("string")
    removed = previous.join(differing.where(f"{_ROWS} = 0"), key).select(
        *map(quoted, own),
        F.lit("").alias(HASH),
        text.alias("_file"),
        text.alias("_raw"),
        F.array().cast("array<string>").alias("_reasons"),
        F.lit(at).cast("timestamp_ltz").alias(ORDER),
        F.lit("delete").alias(CHANGE),
        F.lit(True).alias(DELETED),
    )
    return found.unionByName(removed)


def _differing_keys(snapshot: DataFrame, previous: DataFrame, key: Sequence[str]) -> DataFrame:
    """The keys whose good row is new or another one, that are there twice, or that are gone.

    `_of_rows` and `_of_good_rows` count the rows of the snapshot; the others are 64 bits of hash.
    """
    keys = [quoted(name) for name in key]
    good = "size(_reasons) = 0"
    now = snapshot.selectExpr(
        *keys,
        f"1 AS {_ROWS}",
        f"int({good}) AS {_GOOD_ROWS}",
        f"CASE WHEN {good} THEN xxhash64({SHOWN}) END AS {_NOW}",
        f"CAST(NULL AS BIGINT) AS {_WAS}",
        f"false AS {IN_SCOPE}",
    )
    was = previous.selectExpr(
        *keys,
        f"0 AS {_ROWS}",
        f"0 AS {_GOOD_ROWS}",
        f"CAST(NULL AS BIGINT) AS {_NOW}",
        f"xxhash64({SHOWN}) AS {_WAS}",
        IN_SCOPE,
    )
    by_key = now.unionByName(was).groupBy(*keys)
    found = by_key.agg(
        *(F.sum(name).alias(name) for name in (_ROWS, _GOOD_ROWS)),
        *(F.max(name).alias(name) for name in (_NOW, _WAS, IN_SCOPE)),
    )
    differs = f"{_GOOD_ROWS} = 1 AND NOT {_NOW} <=> {_WAS}"
    found = found.where(f"{_GOOD_ROWS} > 1 OR ({differs}) OR ({_ROWS} = 0 AND {IN_SCOPE})")
    return found.drop(IN_SCOPE)


def _names(own: Mapping[str, DataType]) -> tuple[str, ...]:
    return (*own, HASH, "_file", "_raw", "_reasons", ORDER)


def refuse_duplicates(request: ReadRequest, snapshot: DataFrame) -> None:
    """Raise SourceError for a snapshot that holds a key twice."""
    key = [quoted(name) for name in request.key]
    good = snapshot.where(is_good())
    twice = good.groupBy(*key).count().where("count > 1").limit(6).collect()
    if twice:
        shown = [", ".join(str(row[name]) for name in request.key) for row in twice[:5]]
        more = " and others" if len(twice) > 5 else ""
        raise SourceError(
            f"{request.name}: the snapshot {request.source.path} holds keys "
            f"({', '.join(request.key)}) more than once: {'; '.join(shown)}{more}. It is unknown "
            "which row is right, so nothing was loaded; name a key that is unique, or repair it."
        )
