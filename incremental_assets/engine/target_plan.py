"""What the next load of a target would do, found without Spark and without writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from incremental_assets.changes.inspection import SourceStatus
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.engine.target_table import loadable_state
from incremental_assets.ledger.consistency import require_consistent
from incremental_assets.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """What the next load of a target would find.

    `status` is `new`, `nothing`, or `unknown` where the source has to be read; `why` is the reason
    in words. `watermark` is where the load goes on, "" before the first one, and `files` are those
    of a change log that it reads. `unsettled` is a batch that a dead run left, which the load
    settles first: its outcome is not known yet, and the rest is as if it had not been.
    """

    table: str
    status: SourceStatus
    why: str
    watermark: str
    files: tuple[str, ...] = ()
    unsettled: int | None = None


def plan_target(target: TargetTable, now: datetime) -> TargetPlan:
    """What the next load would do. Raises as the load would, for what it refuses unread."""
    ledger = Ledger(target.ledger)
    tail = ledger.tail(target.name)
    unsettled = tail.unsettled[0].batch if tail.unsettled else None
    if unsettled is None:
        settling = TargetSettling.of(target, lambda _: None)
        require_consistent(ledger, tail, settling.log_state, settling.remedy)
    state = loadable_state(target, ledger, tail)
    found = target.changes.inspect(request_of(target, state, now))
    watermark = state.last.high if state.last else target.start
    return TargetPlan(target.name, found.status, found.why, watermark, found.files, unsettled)
