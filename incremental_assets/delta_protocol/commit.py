"""A commit of a Delta table's log: the files that it adds, those that it removes, and a note.

It goes through the very `DeltaTable` object from which it was decided and is never retried by the
writer: if anybody committed in between, the table is read again and the decision is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    try:
        return retried(attempt, on=CommitFailedError, tries=_TRIES, pause_seconds=_PAUSE_SECONDS)
    except CommitFailedError as error:
        raise ConflictError(
            f"{path} was changed by others {_TRIES} times in a row. {otherwise}; run again."
        ) from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be written: {error}. {otherwise}; run again.") from error
