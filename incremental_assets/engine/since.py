"""What an upstream has that a table has not read: its version then, its rows since."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import date

from incremental_assets.delta.read import DataFile, TableFiles, every_file, plain_files
from incremental_assets.delta.vacuum import first_complete_version
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import LakeError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.storage import file_at


def as_it_was_read(
    batch: Batch,
    upstream: str,
    low: int,
    after: TableFiles,
    keep: Callable[[DataFile], bool] = every_file,
) -> TableFiles | None:
    """The upstream when its batch `low` was the last one.

    None if nothing of it was read before, or if that version, or one of its files among those to
    `keep` that `after` no longer has, is gone by now (VACUUM, a log that was cut).
    """
    if not low:
        return None
    version = version_read(batch.view, upstream, low)
    path = f"{batch.settings.lake}/{upstream}"
    if version is None or version < first_complete_version(path):
        return None
    try:
        before = plain_files(path, version)
    except LakeError:
        return None
    there = {file.path for file in after.files}
    removed = (file for file in before.files if file.path not in there and keep(file))
    return None if any(file_at(path, file.path) is None for file in removed) else before


def held_inputs(
    view: LedgerView, table: str, upstream: str, without: Collection[date]
) -> dict[int, set[date]]:
    """Held days whose input changed since they were published, but for those that are loaded.

    They are under the last batch of the upstream before that change.
    """
    history, found = view.table(table), dict[int, set[date]]()
    for day in history.held.keys() & history.last_committed.keys() - set(without):
        changes = view.table(upstream).changes(day, history.published_up_to(upstream, day))
        if changes:
            found.setdefault(changes[0].batch - 1, set()).add(day)
    return found


def batches_read_again(
    view: LedgerView, table: str, upstream: str, days: Collection[date]
) -> set[int]:
    """The batches of an upstream after which a load of these days may read it as it was then.

    So do restatements, whose windows do not show how far the published rows were read, and loads
    of keys that held days have, too.
    """
    history = view.table(table)
    published = {history.published_up_to(upstream, day) for day in days}
    return (published | held_inputs(view, table, upstream, days).keys()) - {0}


def version_read(view: LedgerView, upstream: str, low: int) -> int | None:
    """The version of an upstream when its batch `low` was the last one; None if it is unknown."""
    entries = view.table(upstream).newest_first(up_to=low)
    return next((e.target_version for e in entries if e.target_version), None)
