"""The counts that the shares of a day are taken of, by the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from incremental_assets.ledger.entry import Entry

IN_COUNTS = '{"in_counts": true}'
"""The position of a drop whose counts are those of the rows that counted."""


def rows_in_shares(entries: Iterable[Entry], apart: Collection[str]) -> tuple[int, int]:
    """How many rows of a day count to its shares, and how many of them are in quarantine.

    `entries` are what was published, or dropped from quarantine, since the day's last rebuild, in
    their order. Rows whose only reasons are `apart` do not count.
    """
    rows = quarantined = 0
    for entry in entries:
        if entry.state == "dropped":
            dropped = min(_dropped(entry, apart), quarantined)
            rows, quarantined = rows - dropped, quarantined - dropped
        else:
            rows += entry.rows_counted
            quarantined += entry.rows_counted_quarantined
    return rows, quarantined


def _dropped(entry: Entry, apart: Collection[str]) -> int:
    """How many of the rows that were dropped counted.

    Older versions did not record it. Then rows that were dropped for a reason that is `apart` did
    not count, and all others did; of a drop of all reasons no row is left that counts.
    """
    if entry.position == IN_COUNTS:
        return -entry.rows_counted_quarantined
    return 0 if entry.held_by in apart else entry.rows_deleted
