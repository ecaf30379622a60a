"""The Delta table of a target: what is refused before a load, and its columns and key."""

from __future__ import annotations

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StructField

from incremental_assets.changes.detector import NewRows
from incremental_assets.changes.position import state_of
from incremental_assets.changes.target_state import START, TargetState
from incremental_assets.delta.columns import BATCH
from incremental_assets.delta.delta_log import last_transaction, transaction
from incremental_assets.delta.delta_table import (
    active_paths,
    add_columns,
    ensure_table,
    field_of,
    open_table,
)
from incremental_assets.delta.read import TableFiles
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.table_key import key_properties, record_key
from incremental_assets.delta.writable import require_plain_writes
from incremental_assets.engine.target import TargetTable
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail
from incremental_assets.plurals import counted
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets.storage import files_below


def loadable_state(target: TargetTable, ledger: Ledger, tail: TableTail) -> TargetState:
    """The target, and what the ledger knows of it. Raises for what a load refuses unread."""
    view = ledger.view_if_any() if _needs_history(target, tail) else None
    history = view.table(target.name) if view else None
    state = target.state.with_table().with_ledger(tail.last, history)
    _refuse_other_files(target, state)
    _refuse_filled(target, state)
    state.require_key()
    if target.snapshot and not tail.unsettled:  # a load that died may have moved it on
        _refuse_snapshot(target, state, ledger)
    state.require_same_write()
    _require_partition(target)
    state.require_same_deleted_column(target.changes.order, target.changes.positioned_by)
    return state


def _needs_history(target: TargetTable, tail: TableTail) -> bool:
    """Whether the last batch lacks something; older versions did not record a start in it."""
    unknown = bool(target.start) and tail.last is not None and START not in state_of(tail.last)
    return target.changes.needs_history or unknown


def _refuse_filled(target: TargetTable, state: TargetState) -> None:
    """Raise LakeError where appending could double rows of unknown origin."""
    if not target.write.appends or state.last or target.start or state.version is None:
        return
    if _has_files(target.path):
        raise LakeError(
            f"{target.name}: the target {target.path} holds rows already, but the ledger "
            f"{target.ledger} knows no load of it; appending could double them. Nothing was "
            "loaded. Give a primary_key, so that rows are merged; or start_from, the watermark "
            "up to which the rows were loaded; or another target."
        )


def _require_partition(target: TargetTable) -> None:
    """Raise DefinitionError where no partition of the target can be replaced by its column."""
    replaced = target.write.replaced_partition
    table = open_table(target.path) if replaced else None
    by = table.metadata().partition_columns if table is not None else [replaced]
    if replaced not in by:
        raise DefinitionError(
            f"{target.name}: {target.write} replaces partitions of {replaced}, and the target "
            f"{target.path} is partitioned by {by or 'nothing'}: what it replaces would stay. "
            f"Nothing was loaded. Load into a target that is partitioned by {replaced}, or into a "
            "new one."
        )


def _has_files(path: str) -> bool:
    table = open_table(path)
    return table is not None and bool(table.file_uris())


def _refuse_snapshot(target: TargetTable, state: TargetState, ledger: Ledger) -> None:
    """Raise LakeError where the stored snapshot is not the one that the target holds."""
    if state.last is not None:
        _refuse_lost_snapshot(target, ledger)
    elif _has_files(target.snapshot):
        _refuse_other_snapshot(target)
    elif _has_files(target.path):
        raise LakeError(
            f"{target.name}: the target {target.path} holds rows already, but the ledger "
            f"{target.ledger} knows no load of it: those that the snapshot lacks would stay for "
            "ever, as no snapshot before it had them. Nothing was loaded. Take an empty "
            "target_path, snapshot_path and watermark_path; the first load fills them."
        )


def _refuse_other_snapshot(target: TargetTable) -> None:
    """Raise LakeError where a snapshot that the ledger does not know is not the target's.

    Nothing would differ from it, and the target would lack what it never got.
    """
    stored = transaction(target.snapshot, target.name)
    if stored and stored == transaction(target.path, target.name):
        return
    raise LakeError(
        f"{target.name}: the snapshot stored at {target.snapshot} is of another target, or of "
        f"loads that are not in the ledger {target.ledger}: what the target {target.path} lacks "
        "would be found in no comparison with it. Nothing was loaded. Give each target a "
        "snapshot_path of its own; to load one again, take an empty target_path, snapshot_path "
        "and watermark_path."
    )


def refuse_missing_snapshot(target: TargetTable, ledger: Ledger) -> None:
    """Raise LakeError where the stored snapshot is missing, though the target was loaded by one.

    Asked before an unfinished batch is settled, which is fenced in a snapshot that is created.
    """
    if target.snapshot and open_table(target.snapshot) is None:
        _refuse_lost_snapshot(target, ledger)


def _refuse_lost_snapshot(target: TargetTable, ledger: Ledger) -> None:
    """Raise LakeError where the stored snapshot is missing, or older than what the target holds.

    What was deleted since would be found in no comparison with it. A snapshot that came late moves
    no watermark, and is not stored.
    """
    there, stored = last_transaction(target.snapshot, target.name)
    stored = stored if there else 0
    if stored is None or stored >= transaction(target.path, target.name):
        return
    view = ledger.view_if_any()
    later = [
        entry.batch
        for entry in view.table(target.name).committed
        if entry.batch > stored and entry.target_version is not None and entry.high != entry.low
    ]
    if later:
        found = f"is of batch {stored}" if stored else "is missing or of another target"
        raise LakeError(
            f"{target.name}: the snapshot stored at {target.snapshot} {found}, and the target "
            f"{target.path} holds one of batch {later[-1]}: rows deleted since would stay for "
            "ever. Nothing was loaded. Correct the snapshot_path, or restore that folder; if it is "
            "lost, take an empty target_path, snapshot_path and watermark_path."
        )


def _refuse_other_files(target: TargetTable, state: TargetState) -> None:
    """Raise LakeError where the target holds files of something else."""
    if state.version is not None:
        return
    own = (target.snapshot, target.ledger)
    try:
        # A load that was killed before it made the table may have left intermediate results.
        hidden = ("_", ".", INTERMEDIATE)
        there = files_below(target.path, skip=lambda name: name.startswith(hidden))
    except OSError as error:
        raise LakeError(
            f"{target.name}: the target {target.path} cannot be listed: "
            f"{error.strerror or error}. Nothing was loaded; name a location where this user may "
            "read and write."
        ) from error
    others = [
        f.path
        for f in there
        if not any(f"{target.path}/{f.path}".startswith(f"{path}/") for path in own if path)
    ]
    if others:
        raise LakeError(
            f"{target.name}: the target {target.path} is no Delta table, but holds {others[0]} "
            f"({counted(len(others), 'file')}). Nothing was loaded; choose an empty folder, or "
            "make it a Delta table (CONVERT TO DELTA)."
        )


def ensure_columns(target: TargetTable, new: NewRows) -> None:
    """Create the target with its columns, or add those that it lacks."""
    rows: DataFrame = new.rows
    schema = rows.schema
    names = (*new.own, *target.changes.order)
    columns = [StructField(BATCH, LongType()), *(schema[n] for n in names)]
    at = schema[target.changes.order[0]].dataType
    columns += map(StructField, target.write.validity, (at, at, BooleanType()))
    fields = [field_of(column) for column in columns]
    table = open_table(target.path)
    if table is not None:
        require_plain_writes(table, target.path)
        add_columns(target.path, fields)
        return
    missing = sorted(set(target.partition_by) - set(new.own))
    if missing:
        raise LakeError(
            f"{target.name}: partition_by names {missing}, which the source does not have; it "
            f"has {sorted(new.own)}. Nothing was loaded."
        )
    write = target.write
    key = key_properties(target.key, write.rows_of_key) if write.by_key else {}
    named = [(str(each["name"]), each["type"]) for each in fields]
    ensure_table(target.path, target.name, named, target.partition_by, key)


def ensure_key(target: TargetTable, state: TargetState) -> None:
    """Record the key and write of a target that has none, or no rows by another write."""
    other = state.rows_of_key != target.write.rows_of_key
    if target.write.by_key and (other or not state.filled_by):
        key = state.filled_by or target.key
        record_key(DeltaTable(target.path), key, target.write.rows_of_key)


def require_looked_up(target: TargetTable, write: StagedWrite, before: TableFiles) -> None:
    """Raise DefinitionError where a write by key looked no keys up in some of the table's files.

    `before` are the files as the write began; those that were replaced meanwhile do not count.
    """
    if not (target.write.by_key and write.changes):
        return
    missed = {file.path for file in before.files} - {*write.searched_files}
    table = open_table(target.path) if missed else None
    still = missed & active_paths(table) if table is not None else ()
    if still:
        raise DefinitionError(
            f"{target.name}: {type(target.write).__name__}() finds rows by their key (`by_key`), "
            f"and looked no keys up in {min(still)} of {target.path}, so a key could be there "
            "twice. Nothing was published. Stage the rows by `to.merge`, which looks their keys "
            "up, and load again."
        )
