"""The ledger as the sensors of a process share it: what one of them has read, all have."""

from __future__ import annotations

from functools import lru_cache

from incremental_assets.ledger.ledger import Ledger, ledger_path


@lru_cache(maxsize=8)
def kept_ledger(lake: str) -> Ledger:
    """The ledger of a lake, the same object each time; its view may be asked for by any thread."""
    return Ledger(ledger_path(lake))
