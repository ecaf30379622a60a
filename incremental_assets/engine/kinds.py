"""Which kind of batch loads a table, and what the ledger calls its change detector."""

from __future__ import annotations

from typing import Any

from incremental_assets.engine.batch import BatchKind
from incremental_assets.engine.daily import DailyBatch
from incremental_assets.engine.joined import JoinedBatch
from incremental_assets.engine.keyed import KeyedBatch
from incremental_assets.engine.landing import LandingBatch
from incremental_assets.engine.retraction import LandingRetraction, SnapshotRetraction
from incremental_assets.engine.silver import TypedBatch
from incremental_assets.engine.snapshots import SnapshotBatch
from incremental_assets.engine.stored import StoredBatch
from incremental_assets.ledger.entry import Kind, Mode
from incremental_assets.table import Table


def kind_of(table: Table, mode: Mode = "rebuild", kind: Kind = "advance") -> BatchKind[Any]:
    """How the table is loaded; what a commit notes of a batch depends on neither mode nor kind."""
    if table.layer == "bronze":
        retracts = kind == "retract"
        if table.changes.compares_days:
            return SnapshotRetraction() if retracts else SnapshotBatch()
        if table.feed is not None:
            return LandingRetraction() if retracts else LandingBatch()
        return StoredBatch()
    if table.is_typed:
        return TypedBatch()
    if table.write.recomputes_keys:
        return KeyedBatch()
    return JoinedBatch() if mode == "merge" else DailyBatch()


def detector_of(table: Table) -> str:
    """What the ledger calls the detector of a table."""
    return table.changes.name if table.layer == "bronze" else "batches"
