"""What lies in quarantine, told and dropped without a JVM."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl
from deltalake.exceptions import DeltaError

from incremental_assets.batches.batch import quarantine_path
from incremental_assets.days import DayRange
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.lake import quarantine
from incremental_assets.lake.delta_log import open_table
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import say_in_ledger
from incremental_assets.load import Lakehouse
from incremental_assets.query import query
from incremental_assets.settings import Settings
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


@dataclass(frozen=True)
class Asked:
    """Which rows are asked for: all where nothing is said."""

    days: DayRange | None = None
    reason: str = ""


def in_quarantine(settings: Settings, tables: Sequence[Table], asked: Asked) -> pl.DataFrame:
    """How many rows lie in quarantine for a reason, by `table`, `day` and `reason`.

    Further columns are `rows` and the `first_batch` and `last_batch` that set them aside. A row
    with several reasons counts for each of them.
    """
    found = [
        set_aside(settings, table, asked).select(
            pl.lit(table.name).alias("table"),
            pl.col("_day").alias("day"),
            pl.col("reasons").alias("reason"),
            pl.col("_batch"),
        )
        for table in tables
    ]
    every = pl.concat(found).explode("reason")
    if asked.reason:
        every = every.filter(pl.col("reason") == asked.reason)
    return (
        every.group_by("table", "day", "reason")
        .agg(
            pl.len().alias("rows"),
            pl.min("_batch").alias("first_batch"),
            pl.max("_batch").alias("last_batch"),
        )
        .sort("table", "day", "reason")
    )


def set_aside(settings: Settings, table: Table, asked: Asked) -> pl.DataFrame:
    """The rows of a table in quarantine, by day and batch.

    Columns are `_batch: int`, `_day: date`, `_landing_day: date`, `_file: str`, `row: str` (as it
    landed), `reasons: list[str]`, `details: list[str]` (what exactly cannot be read), `first_seen:
    datetime` (UTC) and `tried: int` (how often it was judged). Rows of a batch without an outcome
    are left out. Raises LakeError.
    """
    path = quarantine_path(settings, table)
    there = open_table(path)
    names = [] if there is None else [field.name for field in there.schema().fields]
    if there is None or "reasons" not in names:
        return pl.DataFrame(schema=_SCHEMA)
    own = [name for name in _SCHEMA if name in names]
    later = [pl.lit(None).cast(_SCHEMA[name]).alias(name) for name in _SCHEMA if name not in own]
    try:
        rows = query(there, ", ".join(own)).with_columns(later).select(list(_SCHEMA))
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be read: {error}") from error
    settled = Ledger(ledger_path(settings.lake)).view().table(table.name).outcomes
    rows = rows.filter(pl.col("_batch").is_in({e.batch for e in settled if e.state != "abandoned"}))
    if asked.days is not None:
        rows = rows.filter(pl.col("_day").is_between(asked.days.first, asked.days.last))
    if asked.reason:
        rows = rows.filter(pl.col("reasons").list.contains(asked.reason))
    return rows.cast(_SCHEMA).sort("_day", "_batch", "_file", "row")


def drop(house: Lakehouse, table: Table, asked: Asked, reason: str) -> Mapping[date, int]:
    """Take rows out of quarantine for good; how many, by day.

    Who did it, when and why stays in the ledger, which is written first. A day that is judged anew
    (because it is restated) sets the rows aside again. Raises DefinitionError without a reason,
    and ConflictError where a load is under way that no lock kept apart.
    """
    if not reason.strip():
        raise DefinitionError("To drop rows needs a reason: whoever misses them will want to know.")
    settings = house.settings
    with table_lock(settings.lake, table.name, "a drop from quarantine", house.say):
        last = house.settle(table).table(table.name).last_batch
        rows = set_aside(settings, table, asked).group_by("_day").len().sort("_day")
        counts: dict[date, int] = dict(rows.iter_rows())
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
                recorded_at=house.now(),
                rows_deleted=count,
                held_by=asked.reason,
                who=getpass.getuser(),
                why=reason.strip(),
            )
            for day, count in counts.items()
        ]
        say_in_ledger(house.ledger, table.name, last, entries, "dropped")
        quarantine.drop(quarantine_path(settings, table), counts, asked.reason)
    return counts
