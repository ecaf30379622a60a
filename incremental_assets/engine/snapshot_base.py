"""The base of a table of snapshots: its state up to a day, so that no load reads all changes.

The base in `<table>/_base` is only ever written whole, by one commit, and its files identify it:
`_until` is the day up to which it holds the last change of each key, and `_batch` the last batch
that it knows. Its transaction number is the version of the table that it was read from. A later
batch that changed such a day makes it worthless, and so does a commit since that is no load's (a
DELETE or RESTORE by hand), and whatever leaves it with files of two kinds. Then the changes are
read themselves, and the next snapshot in order writes it again. So nothing is to be undone where a
load dies.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.position import parsed
from incremental_assets.changes.snapshot_comparison import SnapshotComparison
from incremental_assets.delta.delta_log import changed_by_others, transaction
from incremental_assets.delta.delta_table import (
    active_paths,
    ensure_table,
    open_table,
    rows_by_file,
    version_of,
)
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import TableFiles, plain_files, read_files
from incremental_assets.delta.stage import folder_of, stage
from incremental_assets.delta.transaction import Transaction
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import ConflictError, LakeError

# The base is written again where a load would read more files of changes than this,
RETRACTED = "retracted"
"""In the position of a day whose snapshot was retracted whole: as if it had never come."""
MOST_FILES = 32
# or so many times the rows of the snapshot before, but not for the sake of fewer rows than these.
MOST_TIMES = 3
FEW_ROWS = 10_000

_COLUMNS = (
    ("_batch", "long"),
    ("_until", "date"),
    ("_key", "string"),
    ("_hash", "string"),
    ("payload", "variant"),
    ("_file", "string"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """The last change of each key that is there, up to the day `until`."""

    until: date
    table: TableFiles

    @property
    def count(self) -> int:
        """Its rows."""
        return sum(file.rows or 0 for file in self.table.files)

    def rows(self, session: SparkSession) -> DataFrame:
        """The rows as changes of the day `until`: `_key`, `_hash`, `payload`, `_file`."""
        rows = read_files(session, self.table, self.table.files)
        return rows.drop("_batch", "_until").withColumns(
            {"_operation": F.lit("insert"), "_landing_day": F.lit(self.until)}
        )


def comparison_of(batch: Batch) -> SnapshotComparison:
    """How the batch's table compares snapshots."""
    comparison = batch.table.changes.comparison
    assert comparison is not None  # else the batch is of another kind
    return comparison


def base_before(batch: Batch, day: date) -> Base | None:
    """The base of the batch's table, if it holds for a day before this one."""
    path = base_path(batch.path)
    if open_table(path) is None:
        return None
    try:
        table = plain_files(path, version_of(path))
    except LakeError:  # somebody made of it what it should not be
        return None
    found = {(file.partition["_until"], file.first_batch, file.last_batch) for file in table.files}
    if len(found) != 1:
        return None
    until, known, last = found.pop()
    history = batch.view.table(batch.table.name)
    if known is None or known != last or known > history.last_batch or until >= day:
        return None
    later = (entry for entry in history.above(known) if entry.state == "committed")
    version = transaction(path, _name(batch))
    changed = any(entry.day <= until for entry in later) or not version
    if changed or changed_by_others(batch.path, batch.table.name, version):
        return None
    return Base(until, table)


def loaded_days(batch: Batch) -> frozenset[date]:
    """The days of which the table has a snapshot; not those whose snapshot was retracted."""
    history = batch.view.table(batch.table.name)
    days = history.last_committed
    return frozenset(d for d in days if not parsed(history.position(d)).get(RETRACTED))


def is_due(batch: Batch, day: date) -> date | None:
    """The day up to which the base should be written before a snapshot of `day` is compared.

    None where it need not, and for a snapshot that comes late.
    """
    loaded = loaded_days(batch)
    until = max((d for d in loaded if d < day), default=None)
    if until is None or any(d > day for d in loaded):
        return None
    base = base_before(batch, day)
    since = [
        rows
        for _, landed, rows in rows_by_file(batch.path, "_landing_day")
        if landed is not None and landed <= until and (base is None or landed > base.until)
    ]
    if base is None and rows_by_file(base_path(batch.path), "_until"):
        return until  # what it holds may be what somebody deleted
    count = base.count if base is not None else 0
    last = batch.view.table(batch.table.name).last_published[until].rows_read
    scope = comparison_of(batch).scope
    size = max(last, count) if scope else last  # a part has few of the rows that are there
    most = max(MOST_TIMES * size, FEW_ROWS)
    rows = sum(since) + count
    files = max(MOST_FILES, len(base.table.files) if base is not None else 0)
    return until if len(since) > files or (since and rows > most) else None


def write_base(batch: Batch, state: DataFrame, until: date, version: int) -> None:
    """Replace the base by this state.

    `state` is the table's state up to `until`, read at this version or a later one. Where
    somebody else was faster the base stays as it is: it only saves reading.
    """
    path, name = base_path(batch.path), _name(batch)
    ensure_table(path, name, _COLUMNS, ("_until",))
    table = open_table(path)
    old = active_paths(table) if table is not None else ()
    batch_and_day = {"_batch": F.lit(batch.number - 1).cast("long"), "_until": F.lit(until)}
    rows = state.withColumns(batch_and_day).select(*(column for column, _ in _COLUMNS))
    staged = stage(rows, path, folder_of(name, version), ("_until",))
    with suppress(ConflictError):
        note = f'{{"batch":{batch.number}}}'
        publish(staged, Transaction(name, version, note), replaced_files=old)


def _name(batch: Batch) -> str:
    return f"base of {batch.table.name} at version"


def base_path(table: str) -> str:
    """Where the base of a table at a path lies."""
    return f"{table}/_base"
