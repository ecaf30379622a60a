"""The tail of one table's history: what its next load must know, without the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import polars as pl

from incremental_assets.ledger.entry import Entry, from_frame, is_of_a_load
from incremental_assets.ledger.snapshot import LedgerSnapshot

_COMMITTED = pl.col("state") == "committed"
_IN_LOG = pl.col("target_version").is_not_null()
_OF_A_LOAD = ~pl.col("state").is_in(["accepted", "dropped"]) & (pl.col("kind") != "rewind")


@dataclass(frozen=True, slots=True)
class TableTail:
    """The newest batches of a table.

    `last_batch` is the highest number ever given, 0 before the first. `unsettled` are the claims of
    the last load as long as it has no outcome; manual decisions are none. `committed` are
    the published days of the newest batch that has any, by day: held and abandoned batches are
    passed over, a rewind is not. `last_load` is the highest number of a load.
    """

    table: str
    last_batch: int = 0
    unsettled: tuple[Entry, ...] = ()
    committed: tuple[Entry, ...] = ()
    last_load: int = field(default=0, compare=False)

    @property
    def last(self) -> Entry | None:
        """The newest published entry: its `high` and `position` are the table's watermark."""
        return self.committed[-1] if self.committed else None


def tail_of(snapshot: LedgerSnapshot, table: str) -> TableTail:
    """The tail of a table; it reads the newest files only, as far back as the last commit."""
    files = snapshot.of(table)
    last = _entries(snapshot.newest(files, pl.lit(value=True)))
    if not last:
        return TableTail(table)
    committed = tuple(entry for entry in last if entry.state == "committed")
    if not committed:
        published = [file for file in files if file.may_hold("committed")]
        committed = _entries(snapshot.newest(published, _COMMITTED))
    load = last if is_of_a_load(last[0]) else _entries(snapshot.newest(files, _OF_A_LOAD))
    settled = any(entry.state != "claimed" for entry in load)
    number = load[0].batch if load else 0
    return TableTail(table, last[0].batch, () if settled else load, committed, number)


def last_in_log(snapshot: LedgerSnapshot, table: str, above: int) -> int:
    """The last batch above a number that, by the ledger, is in the table's own log; 0 without.

    Some are published without a commit: they brought nothing.
    """
    files = [f for f in snapshot.of(table) if f.last_batch > above and f.may_hold("committed")]
    wanted = _COMMITTED & _IN_LOG & (pl.col("batch") > above)
    found = snapshot.newest(files, wanted, ["batch", "state", "target_version"])
    return int(found["batch"][0]) if found.height else 0


def entries_of(snapshot: LedgerSnapshot, table: str, batch: int) -> tuple[Entry, ...]:
    """The claims and outcomes of one batch, by day."""
    files = [file for file in snapshot.of(table) if file.may_be_of(batch)]
    rows = [frame.filter(pl.col("batch") == batch) for frame in snapshot.rows(files)]
    return _entries(pl.concat(rows)) if rows else ()


def day_watermark(snapshot: LedgerSnapshot, table: str, upstream: str, day: date) -> int:
    """How far a table has read an upstream for a day: the high end of its last batch, or 0."""
    files = [f for f in snapshot.of(table) if f.may_hold("committed") and f.may_concern(day)]
    wanted = _COMMITTED & (pl.col("day") == day)
    found = snapshot.newest(files, wanted, ["batch", "day", "state", "windows"])
    windows = found["windows"].to_list()[0] if found.height else ()
    return next((window["high"] for window in windows if window["upstream"] == upstream), 0)


def _entries(rows: pl.DataFrame) -> tuple[Entry, ...]:
    """Entries of one batch, by day."""
    return tuple(from_frame(rows.sort("day")))
