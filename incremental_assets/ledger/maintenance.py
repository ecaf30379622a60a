"""Maintenance of the ledger by itself: few files, a short log, nothing on disk that is not read.

After a hundred thousand commits nothing of this may be left to a night job: on a local disk each
opening of the table lists its whole log folder (0.2 s for 100,000 commits), and every small file
costs a read.
"""

from __future__ import annotations

import contextlib
import re

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.delta_protocol.commit import ONCE
from incremental_assets.errors import LedgerError
from incremental_assets.ledger.compaction import compact
from incremental_assets.ledger.day_index import DayIndex, index_at, write_index
from incremental_assets.ledger.snapshot import STATISTICS, LedgerSnapshot
from incremental_assets.locations import local_path
from incremental_assets.storage import remove

COMPACT_AT_FILES = 50
# A larger file is left alone: compaction costs what came since, and a file is read in a few ms.
SMALL_BYTES = 256 * 1024
# A file may be written and not yet committed; the clock of its writer may be another one.
KEPT_HOURS = 24
_CHECKPOINT_EVERY = 10
# As delta-rs and `compaction` name them; Spark puts a dot before the c.
_OWN_FILE = re.compile(r"table=[^/]*/part-\d{5}-[0-9a-f-]{36}-c000\.\w+\.parquet")


def configuration(path: str) -> dict[str, str]:
    """The table properties of a ledger.

    A ledger's old versions are never read, so its log is dropped early: on a local disk, where a
    long log makes every opening slow, after minutes. A writer that decided on an older version
    than that decides again (see `Ledger`); a reader lists and reads the log within milliseconds.
    In an object store, where the listing starts at the last checkpoint and clocks may differ, it
    is a day. Data files stay for a day everywhere.
    """
    local = local_path(path) is not None
    return {
        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
        "delta.logRetentionDuration": "interval 5 minutes" if local else "interval 1 days",
        "delta.deletedFileRetentionDuration": "interval 5 minutes" if local else "interval 1 days",
    }


def compact_if_due(
    snapshot: LedgerSnapshot, table: DeltaTable, at_files: int | None = None
) -> None:
    """Compact small files once there are enough of them, and drop what is no longer needed.

    The index is rewritten with them. Enough are COMPACT_AT_FILES, unless another number is given.

    `table` is the object that the snapshot was taken of, as new as the last append. It raises
    nothing, for the append is done: what fails, because another process wrote meanwhile, is
    tried again after the next one.
    """
    small = [file for file in snapshot.files if file.size < SMALL_BYTES]
    # A single small file of a table cannot be compacted.
    if len(small) - len({file.table for file in small}) + 1 < (at_files or COMPACT_AT_FILES):
        return
    with contextlib.suppress(LedgerError, DeltaError, OSError):
        index = index_at(snapshot)
        paths = compact(snapshot, table, small)
        write_index(snapshot.root, DayIndex(index.frames, paths))
        table = DeltaTable(snapshot.root)
        _configure(snapshot.root, table)
        table.cleanup_metadata()
        _remove_old_files(snapshot.root, table)


def _remove_old_files(root: str, table: DeltaTable) -> None:
    """Remove the ledger's own files that are not in its log, and nothing else below its path.

    With `full` the list has all files that are not in the log, not only what the log still calls
    removed (a checkpoint forgets that): also those of tables and sources that lie there.
    """
    for path in table.vacuum(dry_run=True, full=True, retention_hours=KEPT_HOURS):
        if _OWN_FILE.fullmatch(path):
            remove(f"{root}/{path}")


def _configure(path: str, table: DeltaTable) -> None:
    """Give a ledger of an older version the properties of today's."""
    there = table.metadata().configuration
    missing = {k: v for k, v in configuration(path).items() if k not in there}
    if there.get("delta.checkpointInterval") != str(_CHECKPOINT_EVERY):
        missing["delta.checkpointInterval"] = str(_CHECKPOINT_EVERY)
    if missing:
        table.alter.set_table_properties(missing, commit_properties=ONCE)
