"""Verifying: what was loaded is built again in a scratch folder, and compared row by row."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pyspark.sql import SparkSession

from incremental_assets.days import DayRange, named
from incremental_assets.delta.delta_table import bytes_of
from incremental_assets.engine.target import TargetTable
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plurals import counted
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.table import Table
from incremental_assets.verifying.bronze import bronze_rebuild
from incremental_assets.verifying.derived import derived_rebuild
from incremental_assets.verifying.rebuild import Asked, Rebuild
from incremental_assets.verifying.scratch import FOLDER, scratch_lake, size_text
from incremental_assets.verifying.target import TargetRebuild
from incremental_assets.verifying.verified import Verified

_NAMED_DAYS = 5


def verify(
    lakehouse: Lakehouse, table: Table, days: DayRange | None = None, scratch: str | None = None
) -> Verified:
    """Rebuild a table, and all tables above it, from bronze, and compare it row by row.

    Bronze is loaded again from its source. The rebuild is below `scratch` (a path or URI; default
    in the lake) until it is compared. Nothing of the lake is changed, and loads that go on
    meanwhile are not waited for: everything is read as it is now. Days that are stale or held are
    left out. Raises DefinitionError where there is nothing to compare, LedgerError if the ledger
    and these tables are inconsistent, and LakeError if the comparison failed.
    """
    started = time.monotonic()
    require_all_consistent(lakehouse.ledger, lakehouse.settings, _made_of(table))
    view = lakehouse.ledger.view_if_any()
    _require_loaded(table, view.table(table.name), days)
    of = bronze_rebuild if table.layer == "bronze" else derived_rebuild
    rebuild = of(Asked(lakehouse, table, view, days, lakehouse.now()))
    below = scratch or f"{lakehouse.settings.lake}/{FOLDER}"
    return _verified(rebuild, below, lakehouse.spark, lakehouse.log, started)


def verify_target(
    target: TargetTable,
    spark: SparkSession,
    now: datetime,
    log: Callable[[str], None],
    scratch: str = "",
) -> Verified:
    """Build a loader's target again from its source, below `scratch`, and compare the two.

    Nothing of the target is changed. It is built by the rules of today, and in one load. Raises
    DefinitionError where there is nothing that could be compared, SourceError where the source has
    lost what that needs, and LakeError if it could not be done.
    """
    started = time.monotonic()
    rebuild = TargetRebuild(target, spark, now)
    below = scratch or f"{target.path}/{FOLDER}"
    return _verified(rebuild, below, lambda: spark, log, started)


def _verified(
    rebuild: Rebuild,
    below: str,
    spark: Callable[[], SparkSession],
    log: Callable[[str], None],
    started: float,
) -> Verified:
    """Build what can be built again, and compare; what goes wrong in Spark is a LakeError."""
    found, name = rebuild.found, rebuild.found.table
    if found.rebuilt:
        size = rebuild.size
        log(f"{name}: the rebuild takes about {size_text(size)} below {below}")
        with scratch_lake(below, rebuild.now, size, log) as folder:
            again, compared = rebuild.build(folder)
            log(f"{name}: version {found.version} is compared with the rebuild")
            read = [bytes_of(path) for path in (rebuild.path, again)]
            try:
                with own_session(spark(), size_of(0, read)) as session:
                    found = compared(session)
            except SPARK_ERRORS as error:
                raise LakeError(
                    f"{name} could not be compared: Spark failed: {what_failed(error)}. Nothing "
                    "was changed; run again, and if it fails again, investigate this error."
                ) from error
    notes = [*found.notes, *_forgotten(found), *_makers(rebuild.history, found)]
    return replace(found, notes=tuple(notes), seconds=round(time.monotonic() - started, 3))


def _made_of(table: Table) -> list[Table]:
    """All tables above this one, and itself."""
    above = {each.name: each for read in table.upstreams for each in _made_of(read.table)}
    return [*above.values(), table]


def _require_loaded(table: Table, history: TableHistory, days: DayRange | None) -> None:
    loaded = history.last_committed
    if not loaded:
        raise DefinitionError(
            f"{table.name} was never loaded, so there is nothing to verify; run it."
        )
    if days is not None and not any(day in days for day in loaded):
        raise DefinitionError(f"{table.name} has none of the days {days}; it has {named(loaded)}.")


def _forgotten(found: Verified) -> list[str]:
    rows = found.rows.not_judged
    return [f"not compared: {counted(rows, 'row')} no longer at the source"] if rows else []


def _makers(history: TableHistory, found: Verified) -> list[str]:
    """Which batch made the days that differ: it may have been made by older code."""
    compared = (*found.rows.days, *found.quarantine.days)
    days = sorted({each.day for each in compared if each.differences and each.day})
    last = {t.day: e for e in history.committed for t in e.touched} | dict(history.last_committed)
    return [
        f"{day} was last loaded by batch {last[day].batch}, at "
        f"{last[day].recorded_at:%Y-%m-%d %H:%M:%S} UTC, by code version "
        f"{last[day].code_version or 'unknown'}: {last[day].why}"
        for day in days[:_NAMED_DAYS]
        if day in last
    ]
