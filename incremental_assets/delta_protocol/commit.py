"""A commit of a Delta table's log: the files that it adds, those that it removes, and a note.

It goes through the very `DeltaTable` object from which it was decided and is never retried by the
writer: if anybody committed in between, the table is read again and the decision is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from incremental_assets.errors import ConflictError, LakeError
from incremental_assets.retries import retried

# A hook that fails after the commit would look like a commit that failed.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
ONCE = CommitProperties(max_commit_retries=0)
_TRIES = 20
_PAUSE_SECONDS = 0.02
_TRIES_UNMOVED = 3
_CHECKPOINT_INTERVAL = 100  # of delta-rs
_T = TypeVar("_T")


def commit_files(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    *,
    note: str | None = None,
    transaction: tuple[str, int] | None = None,
    hooks: PostCommitHookProperties | None = None,
) -> None:
    """Add and remove these files in one commit, which is tried once.

    `note` is its `userMetadata`, `transaction` an application and its number. Raises
    CommitFailedError, and changes nothing, if somebody committed since the table was opened.
    """
    table.create_write_transaction(
        [*actions],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata=None if note is None else {"userMetadata": note},
            max_commit_retries=0,
            app_transactions=None if transaction is None else [Transaction(*transaction)],
        ),
        post_commithook_properties=hooks,
    )


def retried_commit(path: str, attempt: Callable[[], _T], otherwise: str) -> _T:
    """The result of `attempt`, which opens the table and commits; again if others commit first.

    Raises ConflictError if they keep doing so, and LakeError for a table that cannot be written.
    `otherwise` describes the table after either.
    """
    failed_at = list[int]()

    def tried() -> _T:
        try:
            return attempt()
        except CommitFailedError as error:
            # delta-rs raises it also for a feature that it cannot write: then no version is new.
            failed_at.append(DeltaTable(path).version())
            if failed_at.count(failed_at[-1]) < _TRIES_UNMOVED:
                raise
            raise LakeError(
                f"{path} cannot be written, although nobody else commits: {error}. {otherwise}. "
                "If somebody changed the table's properties, take that back, and run again."
            ) from error

    try:
        return retried(tried, on=CommitFailedError, tries=_TRIES, pause_seconds=_PAUSE_SECONDS)
    except CommitFailedError as error:
        raise ConflictError(
            f"{path} was changed by others {_TRIES} times in a row. {otherwise}; run again."
        ) from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be written: {error}. {otherwise}; run again.") from error


def write_due_checkpoint(table: DeltaTable, path: str, version: int, *, cut: bool = True) -> None:
    """Write the checkpoint that is due after a commit without hooks, which made this version.

    At the interval of the table's properties; with `cut`, commits beyond the log's retention go by
    them as well. It raises nothing, for the commit is done: maintenance, or in the ledger the next
    one that is due, writes the checkpoint that is missing.
    """
    settings = table.metadata().configuration
    with suppress(DeltaError, OSError, ValueError):
        interval = int(settings.get("delta.checkpointInterval") or _CHECKPOINT_INTERVAL)
        if interval < 1 or (version + 1) % interval:
            return
        table = DeltaTable(path, version=version)
        table.create_checkpoint()
        cleans_up = settings.get("delta.enableExpiredLogCleanup") or "true"
        if cut and cleans_up.lower() == "true":
            table.cleanup_metadata()
