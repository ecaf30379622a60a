"""Whether the ledger and all tables of a lake are consistent.

A load compares its own table. Commands that report what is new, or load many tables, compare all of
them first: they read the tail of each table's log, without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from incremental_assets.delta.delta_log import last_transaction
from incremental_assets.errors import LedgerError
from incremental_assets.ledger.consistency import LogState, inconsistency
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.settings import Settings
from incremental_assets.table import Table

A_MISSING_TABLE = (
    "A table that is gone has no log: it starts empty, and the next run loads all of it again from "
    "what its source, or its upstreams, still have."
)


def log_state_of(settings: Settings, table: Table) -> LogState:
    """The state of a table of the lake by its own log."""
    path = f"{settings.lake}/{table.name}"
    return LogState(path, *last_transaction(path, table.name))


def require_all_consistent(ledger: Ledger, settings: Settings, tables: Sequence[Table]) -> None:
    """Raise LedgerError if the ledger and any of the tables are inconsistent, naming all that do.

    A claim without an outcome is no inconsistency, whether or not the table has its batch. Changes
    nothing; creates no ledger.
    """
    tails = ledger.tails([table.name for table in tables])
    found = [
        one
        for table in tables
        if (one := inconsistency(ledger, tails[table.name], partial(log_state_of, settings, table)))
    ]
    if not found:
        return
    listed = "\n".join(f"  {one.table} {one.summary}" for one in found)
    of_missing = f" {A_MISSING_TABLE}" if any(not one.is_there for one in found) else ""
    names = " ".join(one.table for one in found)
    raise LedgerError(
        f"The ledger {ledger.path} and these tables are not of the same time (was one of them "
        "removed, or replaced by a backup?), so nothing is loaded, and it is not known what is "
        f"new:\n{listed}\n"
        "Restore the ledger and the tables as they were at one time; or rebuild the ledger from "
        f"the tables' logs, and the next run loads these tables again.{of_missing}\n"
        f"  incremental-assets ledger rebuild {names}"
    )
