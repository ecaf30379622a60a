"""The ledger that the sensors of a process share: what one of them has read is cached for all."""

from __future__ import annotations

from functools import lru_cache

from incremental_assets.ledger.ledger import Ledger, ledger_path


@lru_cache(maxsize=8)
def cached_ledger(lake: str) -> Ledger:
    """The ledger of a lake, the same object each time; any thread may call its `view`."""
    return Ledger(ledger_path(lake))
