"""Loading a target: what an earlier load left is settled, then the steps of a batch follow."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from incremental_assets.engine.load import load
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable
from incremental_assets.engine.target_steps import Loaded, TargetSteps
from incremental_assets.engine.target_table import loadable_state, refuse_missing_snapshot
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import settle


def load_target(
    target: TargetTable,
    spark: SparkSession,
    now: datetime,
    log: Callable[[str], None] = lambda _: None,
    kind: type[TargetSteps] | None = None,
) -> Loaded:
    """Load what is new, or as another `kind` of steps does.

    Raises an IncrementalAssetsError if the job could not be done. Nothing is then half-written, and
    the watermark is where it was.
    """
    started = time.monotonic()
    ledger = Ledger(target.ledger)
    with table_lock(target.ledger, target.name, f"a load of {target.name}", log):
        refuse_missing_snapshot(target, ledger)
        tail = settle(ledger, target.name, TargetSettling.of(target, log), now, log)
        state = loadable_state(target, ledger, tail)
        state.quarantine.remove_outdated(state.outdated, log)
        of_kind = kind or TargetSteps
        steps = of_kind(target, state, ledger, tail, spark, now, log, started)
        done = load(steps)
        if done is not None:
            return done
        before = steps.before
        return Loaded(before, before, None, state.version, time.monotonic() - started)
