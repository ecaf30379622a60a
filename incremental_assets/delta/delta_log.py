"""A table's Delta log, without a JVM: its commits, transactions, fences and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from incremental_assets.delta.delta_table import open_table, version_of
from incremental_assets.delta.writable import require_known_features
from incremental_assets.delta_protocol.commit import NO_HOOKS, commit_files
from incremental_assets.delta_protocol.log_files import actions_at, log_files
from incremental_assets.errors import ConflictError, LakeError
from incremental_assets.retries import retried

FENCE = "fence"
_TRIES = 20
_PAUSE_SECONDS = 0.02
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table.

    `added` are the rows added per tuple of partition values, `touched` the partitions of added
    and removed files alike. `note` is the `userMetadata` that the writer left, as a mapping.
    """

    version: int
    note: Mapping[str, Any]
    added: Mapping[tuple[str | None, ...], int]
    touched: frozenset[tuple[str | None, ...]]


def checkpoint_of(path: str) -> int:
    """The version of the newest checkpoint; -1 without one."""
    return max(log_files(path).checkpoints, default=-1)


def keep_log_short(path: str, at_commits: int, *, cut: bool) -> int | None:
    """Write a checkpoint if so many commits have come since the last one; its version.

    With `cut`, commits beyond the log's retention (30 days unless the table's properties say
    otherwise) that no kept version needs are removed as well. Raises LakeError.
    """
    version = version_of(path)
    if version - checkpoint_of(path) < at_commits:
        return None
    try:
        table = DeltaTable(path)
        table.create_checkpoint()
        if cut:
            table.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path}: no checkpoint can be written ({error}). Run again.") from error
    return version


def transaction(path: str, app_id: str) -> int:
    """The last transaction number of an application in the table; 0 if it has none."""
    table = open_table(path)
    return 0 if table is None else table.transaction_version(app_id) or 0


def last_transaction(path: str, app_id: str) -> tuple[bool, int | None]:
    """Whether there is a table, and the last transaction number of an application in it.

    0 if it has none; None without a table, or where it forgets transactions after some time.
    """
    table = open_table(path)
    if table is None:
        return False, None
    number = table.transaction_version(app_id)
    if number is None and _TRANSACTION_RETENTION not in table.metadata().configuration:
        number = 0
    return True, number


def put_fence(path: str, app_id: str, number: int) -> bool:
    """Commit nothing but the transaction number, so that a late writer of it must fail.

    False if somebody else committed first: read the log again, it may have been that writer.
    Raises LakeError if it cannot be written.
    """
    try:
        table = DeltaTable(path)
        if (table.transaction_version(app_id) or 0) >= number:
            return False
        return _try_fence(table, path, app_id, number)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{path} cannot be written: {error}. Batch {number}, which an earlier run left "
            "unfinished, stays so; make room, or make the table writable, and run again."
        ) from error


def _try_fence(table: DeltaTable, path: str, app_id: str, number: int) -> bool:
    """Commit a fence once; False if somebody was faster."""
    note = json.dumps({"batch": number, FENCE: True})
    try:
        commit_files(table, [], note=note, transaction=(app_id, number), hooks=NO_HOOKS)
    except CommitFailedError:
        if DeltaTable(path).version() != table.version():
            return False
        require_known_features(table, path)  # with the remedy, where it is one of those
        raise
    return True


def ensure_number(path: str, app_id: str, number: int) -> None:
    """Have a transaction number used, by its writer or by a fence, if there is a table.

    Raises LakeError if the table cannot be written, and ConflictError if others keep writing.
    """

    def attempt() -> None:
        if open_table(path) is None or transaction(path, app_id) >= number:
            return
        if not put_fence(path, app_id, number):
            raise ConflictError(
                f"{path}: others kept writing while batch {number}, which an earlier run left "
                "unfinished, was being abandoned. Run again."
            )

    retried(attempt, on=ConflictError, tries=_TRIES, pause_seconds=_PAUSE_SECONDS)


def find_commit(path: str, app_id: str, number: int, newest: int | None = None) -> Commit | None:
    """The commit that carries a transaction number, looking back from the newest version.

    None if it is not in the log any more (a log is kept for 30 days unless configured otherwise).
    """
    version = version_of(path) if newest is None else newest
    while version >= 0:
        actions = actions_at(path, version)
        if actions is None:
            return None
        numbers = [a["txn"]["version"] for a in actions if _is_txn(a, app_id)]
        if numbers and numbers[0] == number:
            return _commit(version, actions, DeltaTable(path))
        if numbers and numbers[0] < number:
            return None
        version -= 1
    return None


def partition_day(value: str | None) -> date | None:
    """A partition value as a day."""
    return None if value is None else date.fromisoformat(unquote(value))


def commits(path: str, app_id: str) -> Iterator[tuple[int, datetime, Commit]]:
    """The commits that carry a transaction of an application, newest first, as far as the log goes.

    With the transaction's number, and when the commit was made (UTC).
    """
    table = DeltaTable(path)
    for version in range(table.version(), -1, -1):
        actions = actions_at(path, version)
        if actions is None:
            return
        for number in (a["txn"]["version"] for a in actions if _is_txn(a, app_id)):
            at = next(
                (a["commitInfo"].get("timestamp", 0) for a in actions if "commitInfo" in a), 0
            )
            yield number, datetime.fromtimestamp(at / 1000, UTC), _commit(version, actions, table)


def changed_by_others(path: str, app_id: str, since: int) -> bool:
    """Whether a commit after a version changed rows without being one of the application's.

    Also where that is unknown: the commits are no longer in the log, or the table was restored.
    """
    newest = version_of(path)
    for version in range(since + 1, newest + 1):
        actions = actions_at(path, version)
        if actions is None:
            return True
        if any(_is_txn(action, app_id) for action in actions):
            continue
        files = (action.get("add") or action.get("remove") for action in actions)
        if any(file is not None and file.get("dataChange", True) for file in files):
            return True
    return since > newest


def _is_txn(action: Mapping[str, Any], app_id: str) -> bool:
    return "txn" in action and action["txn"]["appId"] == app_id


def _commit(version: int, actions: list[dict[str, Any]], table: DeltaTable) -> Commit:
    partition_columns = table.metadata().partition_columns
    added: dict[tuple[str | None, ...], int] = {}
    touched: set[tuple[str | None, ...]] = set()
    info: dict[str, Any] = {}
    for action in actions:
        info = action.get("commitInfo", info)
        file = action.get("add") or action.get("remove")
        if file is None or not file.get("dataChange", True):
            continue
        values = file.get("partitionValues") or {}
        partition = tuple(values.get(name) or None for name in partition_columns)
        touched.add(partition)
        if "add" in action:
            rows = json.loads(file.get("stats") or "{}").get("numRecords", 0)
            added[partition] = added.get(partition, 0) + rows
    try:
        note = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        note = {}
    return Commit(version, note, added, frozenset(touched))
