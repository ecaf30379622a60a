"""The entries of one table, by question: only the files that may hold an answer are read.

They are chosen by the bounds in the ledger's log and by the summaries of the days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property

import polars as pl

from incremental_assets.ledger.day_summaries import DaySummaries
from incremental_assets.ledger.day_summary import NO_SUMMARY
from incremental_assets.ledger.entry import Entry, from_frame
from incremental_assets.ledger.snapshot import LedgerFile, LedgerSnapshot
from incremental_assets.ledger.tail import TableTail, tail_of

_FINAL = pl.col("state") != "claimed"
_COMMITTED = pl.col("state") == "committed"
_ORDER = ("batch", "day")
_AT_ONCE = 100


class TableReader:
    """The entries of one table in a version of the ledger, by question.

    `days` are the summaries of its days, `cached` the entries of whole files that were read
    before, by path.
    """

    def __init__(
        self,
        table: str,
        snapshot: LedgerSnapshot,
        files: Sequence[LedgerFile],
        days: DaySummaries,
        cached: dict[str, tuple[Entry, ...]],
    ) -> None:
        self.table = table
        self.days = days
        self._snapshot = snapshot
        self._files = files
        self._cached = cached

    @cached_property
    def tail(self) -> TableTail:
        return tail_of(self._snapshot, self.table)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, oldest first."""
        for file, rows in zip(self._files, self._snapshot.rows(self._files), strict=True):
            if file.path not in self._cached:
                self._cached[file.path] = tuple(from_frame(rows))
        found = [entry for file in self._files for entry in self._cached[file.path]]
        return tuple(sorted(found, key=lambda e: (e.batch, e.day, e.state != "claimed")))

    def of_day(self, day: date) -> list[Entry]:
        """The final entries for a day, oldest first."""
        summary = self.days.get(day, NO_SUMMARY)
        files = [f for f in self._files if f.may_concern(day)]
        return self._found(files, summary.first, summary.last, _FINAL & (pl.col("day") == day))

    def touching(self, day: date, low: int) -> list[Entry]:
        """The published entries above `low` that changed rows of a day, oldest first."""
        summary = self.days.get(day, NO_SUMMARY)
        here = pl.col("touched").list.eval(pl.element().struct.field("day") == day).list.any()
        first = max(summary.first_touched, low + 1)
        return self._found(self._files, first, summary.last_touched, _COMMITTED & here)

    def affecting(self, day: date, low: int) -> list[Entry]:
        """The published entries above `low` whose rows a fact of the day looks up."""
        ends = [self.days.get(each, NO_SUMMARY) for each in (day, None)]
        firsts = [each.first_affected for each in ends if each.last_affected]
        here = pl.col("affects").is_null() | pl.col("affects").list.contains(day)
        first = max(min(firsts, default=1), low + 1)
        return self._found(
            self._files, first, max(each.last_affected for each in ends), _COMMITTED & here
        )

    def above(self, batch: int) -> list[Entry]:
        """The final entries of later batches, oldest first."""
        return self._found(self._files, batch + 1, None, _FINAL)

    def newest_first(self, up_to: int | None) -> Iterator[Entry]:
        """The published entries, backwards; files are read as the iteration goes on.

        Entries are made of a few rows at a time: a file may hold years of them.
        """
        files = [f for f in self._files if f.may_hold("committed") and _overlaps(f, 0, up_to)]
        queue = sorted(files, key=lambda file: file.last_batch)
        wanted = _COMMITTED if up_to is None else _COMMITTED & (pl.col("batch") <= up_to)
        found: list[pl.DataFrame] = []
        while queue:
            (rows,) = self._snapshot.rows([queue.pop()])
            found = [pl.concat([*found, rows.filter(wanted)]).sort(_ORDER, descending=True)]
            # A compaction may have mixed the order of files.
            is_newest = pl.col("batch") > (queue[-1].last_batch if queue else -1)
            newest = found[0].filter(is_newest)
            for start in range(0, newest.height, _AT_ONCE):
                yield from from_frame(newest.slice(start, _AT_ONCE))
            found = [found[0].filter(~is_newest)]

    def _found(
        self, files: Iterable[LedgerFile], first: int, last: int | None, wanted: pl.Expr
    ) -> list[Entry]:
        some = [file for file in files if _overlaps(file, first, last)]
        wanted = wanted & (pl.col("batch") >= first)
        found = [
            entry for rows in self._snapshot.rows(some) for entry in from_frame(rows.filter(wanted))
        ]
        return sorted(found, key=_in_order)


def _overlaps(file: LedgerFile, first: int, last: int | None) -> bool:
    """Whether a file may hold a batch from `first` to `last`."""
    return file.last_batch >= first and (last is None or file.first_batch <= last)


def _in_order(entry: Entry) -> tuple[int, date]:
    return entry.batch, entry.day
