"""The ledger that the sensors of a process share: what one of them has read is cached for all."""

from __future__ import annotations

from functools import lru_cache

from incremental_assets.delta.delta_table import open_table
from incremental_assets.ledger.ledger import Ledger, ledger_path


@lru_cache(maxsize=8)
def cached_ledger(lake: str) -> Ledger:
    """The ledger of a lake, the same object each time; any thread may call its `view`."""
    return Ledger(ledger_path(lake))


@lru_cache(maxsize=8)
def ledger_id(lake: str) -> str:
    """What identifies the ledger of a lake, which is there: another lake's has another one.

    It is read once in a process, for that opens the table.
    """
    table = open_table(ledger_path(lake))
    return str(table.metadata().id) if table is not None else ""
