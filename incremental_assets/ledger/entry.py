"""One row of the ledger: what one batch of one table did for one day."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final, Literal

import polars as pl

State = Literal["claimed", "committed", "held", "abandoned", "accepted", "dropped"]
Kind = Literal["advance", "restate", "rewind", "replay", "retract"]
KEEP_HOLDS: Final[tuple[Kind, ...]] = ("rewind", "retract")
"""The kinds that publish nothing of what was held, so the day stays held."""
Mode = Literal["append", "merge", "rebuild", "history", "replace"]
FORMAT_VERSION = 5  # since 5 there are retractions; no column was added
WITHOUT_DAYS = "without_days"
"""Under this name a position keeps that its source has no days: any load reads all that is new."""


@dataclass(frozen=True, slots=True)
class Window:
    """The positions (low, high] of an upstream that a batch reads for a day.

    Inside the lake a position is the upstream's batch number; 0 is before the first batch.
    """

    upstream: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A landed file as it was loaded."""

    path: str
    size: int
    tag: str
    modified: str


@dataclass(frozen=True, slots=True)
class Touched:
    """A day of this table's partitions that a batch changed, with the rows written to it."""

    day: date
    rows: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A row per table, batch and day.

    A batch is first `claimed`; its outcome, a second row, is final. A manual decision has a number
    of its own and no claim: a held day `accepted`, rows of it `dropped` from quarantine. A batch
    of the kind `retract` removed the rows of its `files`, which are named as they were loaded.

    `touched` are the days whose rows the batch changed (for a bronze table the business days);
    `affects` the fact days that look these rows up, None when that is not known and every day may
    be. `rows_counted` and `rows_counted_quarantined` leave out rows that only came at a wrong time;
    a drop or a replay that takes such rows out of quarantine has a negative number.
    `bytes` are those of the files read, `seconds` the load's wall time, `held_by` the reason why a
    day was held, or the rules that were accepted.

    `low` and `high` are the watermark before and after the batch as a watermark table shows it: ISO
    8601 UTC with six digits of microseconds and Z, or digits; "" if there is none. `position` is
    JSON: all that the change detector must know to go on after this batch. `code_version` is that
    of the table whose code made the rows; "" where it is not known. `token` is random, given by the
    claim and repeated in its commit: another commit with the same number has another token.
    """

    table: str
    batch: int
    day: date
    state: State
    kind: Kind
    mode: Mode
    detector: str
    recorded_at: datetime
    windows: Sequence[Window] = ()
    files: Sequence[FileEntry] = ()
    touched: Sequence[Touched] = ()
    affects: Sequence[date] | None = None
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_quarantined: int = 0
    rows_late: int = 0
    rows_counted: int = 0
    rows_counted_quarantined: int = 0
    bytes: int = 0
    seconds: float = 0.0
    target_version: int | None = None
    held_by: str = ""
    run_id: str = ""
    who: str = ""
    why: str = ""
    low: str = ""
    high: str = ""
    position: str = ""
    code_version: str = ""
    token: str = ""
    format_version: int = FORMAT_VERSION

    @property
    def replaces_rows(self) -> bool:
        """Whether it replaced or removed rows that others may have read, so that they rebuild."""
        return self.kind in ("restate", "retract")

    @property
    def is_of_whole_source(self) -> bool:
        """Whether it read all that was new in its source, which has no days."""
        state = json.loads(self.position or "{}")
        return isinstance(state, dict) and WITHOUT_DAYS in state

    @property
    def ends_hold(self) -> bool:
        """Whether it published what was held: a rewind and a retraction publish nothing."""
        return self.state == "committed" and self.kind not in KEEP_HOLDS


def is_of_a_load(entry: Entry) -> bool:
    """Whether it is the claim or the outcome of a load, and not a manual decision."""
    return entry.state not in ("accepted", "dropped") and entry.kind != "rewind"


_WINDOWS = pl.List(pl.Struct({"upstream": pl.String, "low": pl.Int64, "high": pl.Int64}))
_FILES = pl.List(
    pl.Struct({"path": pl.String, "size": pl.Int64, "tag": pl.String, "modified": pl.String})
)
_TOUCHED = pl.List(pl.Struct({"day": pl.Date, "rows": pl.Int64}))

SCHEMA: Mapping[str, pl.DataType] = {
    "table": pl.String(),
    "batch": pl.Int64(),
    "day": pl.Date(),
    "state": pl.String(),
    "kind": pl.String(),
    "mode": pl.String(),
    "detector": pl.String(),
    "recorded_at": pl.Datetime("us", "UTC"),
    "windows": _WINDOWS,
    "files": _FILES,
    "touched": _TOUCHED,
    "affects": pl.List(pl.Date),
    "rows_read": pl.Int64(),
    "rows_inserted": pl.Int64(),
    "rows_updated": pl.Int64(),
    "rows_deleted": pl.Int64(),
    "rows_quarantined": pl.Int64(),
    "rows_late": pl.Int64(),
    "rows_counted": pl.Int64(),
    "rows_counted_quarantined": pl.Int64(),
    "bytes": pl.Int64(),
    "seconds": pl.Float64(),
    "target_version": pl.Int64(),
    "held_by": pl.String(),
    "run_id": pl.String(),
    "who": pl.String(),
    "why": pl.String(),
    "low": pl.String(),
    "high": pl.String(),
    "position": pl.String(),
    "code_version": pl.String(),
    "token": pl.String(),
    "format_version": pl.Int32(),
}
# Columns that came with a later format, all of them text; an older ledger has none of them.
SINCE_2 = ("low", "high", "position")
SINCE_3 = ("code_version",)
SINCE_4 = ("token",)
ADDED_LATER = (*SINCE_2, *SINCE_3, *SINCE_4)


def to_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """The entries as a frame in the ledger's schema."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for entry in entries:
        for name, value in asdict(entry).items():
            columns[name].append(list(value) if isinstance(value, tuple) else value)
    return pl.DataFrame(columns, schema=dict(SCHEMA))


def from_frame(frame: pl.DataFrame) -> list[Entry]:
    """The entries in rows of the ledger's schema, in their order."""
    columns: dict[str, list[Any]] = {name: frame[name].to_list() for name in SCHEMA}
    for name, kind in (("windows", Window), ("files", FileEntry), ("touched", Touched)):
        columns[name] = [tuple(kind(**one) for one in some or ()) for some in columns[name]]
    columns["affects"] = [None if days is None else tuple(days) for days in columns["affects"]]
    return [Entry(*values) for values in zip(*columns.values(), strict=True)]
