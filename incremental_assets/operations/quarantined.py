"""The rows in quarantine: listed and dropped without a JVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl
from deltalake.exceptions import DeltaError

from incremental_assets.days import DayRange
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.legacy_text import is_invalid_utf8, read_decoded
from incremental_assets.delta.quarantine import OutdatedRows
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.engine.outdated import outdated_rows
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record_decision
from incremental_assets.ledger.shares import IN_COUNTS
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.quality.rule import APART
from incremental_assets.query import query
from incremental_assets.settings import Settings, user_name
from incremental_assets.table import Table

_SCHEMA = pl.Schema(
    {
        "_batch": pl.Int64(),
        "_day": pl.Date(),
        "_landing_day": pl.Date(),
        "_file": pl.String(),
        "row": pl.String(),
        "reasons": pl.List(pl.String()),
        "details": pl.List(pl.String()),
        "first_seen": pl.Datetime("us", "UTC"),
        "tried": pl.Int32(),
    }
)


# Enough to count by, and always readable.
_COUNTED = ("_batch", "_day", "reasons")


@dataclass(frozen=True)
class QuarantineFilter:
    """Which rows in quarantine: all where nothing is set."""

    days: DayRange | None = None
    reason: str = ""


def in_quarantine(
    settings: Settings, tables: Sequence[Table], which: QuarantineFilter
) -> pl.DataFrame:
    """How many rows are in quarantine for a reason, by `table`, `day` and `reason`.

    Further columns are `rows` and the `first_batch` and `last_batch` that quarantined them. A
    row with several reasons counts for each of them.
    """
    found = [
        quarantined_rows(settings, table, which, _COUNTED).select(
            pl.lit(table.name).alias("table"),
            pl.col("_day").alias("day"),
            pl.col("reasons").alias("reason"),
            pl.col("_batch"),
        )
        for table in tables
    ]
    every = pl.concat(found).explode("reason")
    if which.reason:
        every = every.filter(pl.col("reason") == which.reason)
    return (
        every.group_by("table", "day", "reason")
        .agg(
            pl.len().alias("rows"),
            pl.min("_batch").alias("first_batch"),
            pl.max("_batch").alias("last_batch"),
        )
        .sort("table", "day", "reason")
    )


def days_in_quarantine(
    settings: Settings, table: Table, which: QuarantineFilter
) -> Mapping[date, int]:
    """How many such rows of a table are in quarantine, by day. Raises LakeError."""
    return _by_day(quarantined_rows(settings, table, which, _COUNTED))


def _by_day(rows: pl.DataFrame) -> Mapping[date, int]:
    return dict(rows.group_by("_day").len().sort("_day").iter_rows())


def _in_shares(rows: pl.DataFrame, history: TableHistory) -> pl.DataFrame:
    """Those of the rows that count to the share of their day, which has only published batches."""
    published = {entry.batch for entry in history.committed}
    apart = pl.col("reasons").list.eval(pl.element().is_in(APART)).list.all()
    return rows.filter(pl.col("_batch").is_in(published) & ~apart)


def quarantined_rows(
    settings: Settings,
    table: Table,
    which: QuarantineFilter,
    columns: Collection[str] = tuple(_SCHEMA),
) -> pl.DataFrame:
    """The rows of a table in quarantine, by day and batch.

    Columns are `_batch: int`, `_day: date`, `_landing_day: date`, `_file: str`, `row: str` (as it
    landed), `reasons: list[str]`, `details: list[str]` (what exactly cannot be read), `first_seen:
    datetime` (UTC) and `tried: int` (how often it was judged). Rows of a batch without an outcome
    are left out, and so are outdated rows. Of fewer `columns`, which `_batch`,
    `_day` and `reasons` are among, only those are read. Raises LakeError.
    """
    quarantine = quarantine_of(settings, table)
    path = quarantine.path
    there = open_table(path)
    names = [] if there is None else [field.name for field in there.schema().fields]
    if there is None or "reasons" not in names:
        return pl.DataFrame(schema={name: _SCHEMA[name] for name in columns})
    own = [name for name in columns if name in names]
    later = [pl.lit(None).cast(_SCHEMA[name]).alias(name) for name in columns if name not in own]
    try:
        rows = query(there, ", ".join(own))
    except (DeltaError, OSError) as error:
        if not is_invalid_utf8(error):
            raise LakeError(f"{path} cannot be read: {error}") from error
        rows = read_decoded(path, own)  # an older version stored bytes instead of text
    rows = rows.with_columns(later).select(list(columns))
    settled = Ledger(ledger_path(settings.lake)).view().table(table.name).outcomes
    rows = rows.filter(pl.col("_batch").is_in({e.batch for e in settled if e.state != "abandoned"}))
    for outdated in quarantine.remaining(outdated_rows(settled)):
        rows = rows.filter(~_is(outdated))
    if which.days is not None:
        rows = rows.filter(pl.col("_day").is_between(which.days.first, which.days.last))
    if which.reason:
        rows = rows.filter(pl.col("reasons").list.contains(which.reason))
    order = [name for name in ("_day", "_batch", "_file", "row") if name in columns]
    return rows.cast({name: _SCHEMA[name] for name in columns}).sort(order)


def _is(outdated: OutdatedRows) -> pl.Expr:
    """Whether a row is an outdated one."""
    found = pl.col("_batch").is_between(outdated.low, outdated.high, closed="left")
    if outdated.day is not None:
        found &= pl.col("_day") == outdated.day
    return found & pl.col("reasons").list.contains(outdated.reason) if outdated.reason else found


def drop(
    lakehouse: Lakehouse, table: Table, which: QuarantineFilter, reason: str
) -> Mapping[date, int]:
    """Drop rows from quarantine for good; how many, by day.

    The ledger, which is written first, records who did it, when and why. A day that is rebuilt
    (a restatement) quarantines the rows again. Raises DefinitionError without a reason,
    and ConflictError where a load is in progress and there are no locks.
    """
    if not reason.strip():
        raise DefinitionError("Dropping rows needs a reason, which stays in the ledger: give one.")
    settings = lakehouse.settings
    with table_lock(settings.lake, table.name, "a drop from quarantine", lakehouse.log):
        history = lakehouse.settle(table).table(table.name)
        last = history.last_batch
        rows = quarantined_rows(settings, table, which, _COUNTED)
        counts, counted = _by_day(rows), _by_day(_in_shares(rows, history))
        if not counts:
            return counts
        entries = [
            Entry(
                table=table.name,
                batch=last + 1,
                day=day,
                state="dropped",
                kind="advance",
                mode="replace",
                detector="",
                recorded_at=lakehouse.now(),
                rows_deleted=count,
                rows_counted=-counted.get(day, 0),
                rows_counted_quarantined=-counted.get(day, 0),
                position=IN_COUNTS,
                held_by=which.reason,
                who=user_name(),
                why=reason.strip(),
            )
            for day, count in counts.items()
        ]
        record_decision(lakehouse.ledger, table.name, last, entries, "dropped")
        outcomes = lakehouse.ledger.view().table(table.name).outcomes
        outdated = outdated_rows(outcomes, counts)
        quarantine_of(settings, table).remove_outdated(outdated, lakehouse.log)
    return counts
