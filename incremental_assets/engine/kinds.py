"""Which kind of batch loads a table, and what the ledger calls its change detector."""

from __future__ import annotations

from typing import Any

from incremental_assets.engine.batch import BatchKind
from incremental_assets.engine.copies import CopyBatch
from incremental_assets.engine.daily import DailyBatch
from incremental_assets.engine.joined import JoinedBatch
from incremental_assets.engine.keyed import KeyedBatch
from incremental_assets.engine.landing import LandingBatch
from incremental_assets.engine.silver import TypedBatch
from incremental_assets.engine.stored import StoredBatch
from incremental_assets.ledger.entry import Mode
from incremental_assets.table import Table


def kind_of(table: Table, mode: Mode = "rebuild") -> BatchKind[Any]:
    """How the table is loaded; what a commit of it says does not depend on the mode."""
    if table.layer == "bronze":
        if table.changes.is_snapshot:
            return CopyBatch()
        return LandingBatch() if table.feed is not None else StoredBatch()
    if table.is_typed:
        return TypedBatch()
    if table.write.recomputes_keys:
        return KeyedBatch()
    return JoinedBatch() if mode == "merge" else DailyBatch()


def detector_of(table: Table) -> str:
    """How the ledger calls the way in which the table is told what is new."""
    return table.changes.name if table.layer == "bronze" else "batches"
