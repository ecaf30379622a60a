"""A silver or gold table, built again from bronze with all tables between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from pyspark.sql import DataFrame

from incremental_assets.delta.columns import CHANGED_AT, ORDER, WITHIN
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import DayWork, Plan
from incremental_assets.table import Table
from incremental_assets.verifying.compare import Matching, compare
from incremental_assets.verifying.rebuild import Asked, LakeRebuild, Method
from incremental_assets.verifying.rows import RowSelection
from incremental_assets.verifying.scope import days_to_verify
from incremental_assets.verifying.verified import Compared

# Of the load's own columns those that define which change of a key is the later one.
_ORDER_COLUMNS = (ORDER, WITHIN, CHANGED_AT)


def derived_rebuild(asked: Asked) -> LakeRebuild:
    """The rebuild of days of a table."""
    table = asked.table
    chosen = days_to_verify(table, asked.lakehouse.tables, asked.view, asked.days)
    # Rows of recomputed keys are on days of their own, which none holds.
    left_out = () if table.write.recomputes_keys else tuple(chosen.left_out)
    rows = RowSelection(asked.days, left_out, chosen.before)
    method = Method(partial(_plan, asked.view), rows, "dt", partial(_compared, table))
    return LakeRebuild(asked, chosen, method)


def _plan(
    known: LedgerView, scratch: Lakehouse, table: Table, days: Sequence[date], view: LedgerView
) -> Plan:
    """The plan of a load, with windows of bronze that end at the table's watermark."""
    plan, history = scratch.plan(table, days, view), known.table(table.name)

    def as_far_as_read(todo: DayWork) -> DayWork:
        windows = tuple(
            Window(w.upstream, w.low, history.watermark(w.upstream, todo.day)) for w in todo.windows
        )
        return replace(todo, windows=windows)

    return plan.with_days(as_far_as_read) if table.is_typed else plan


def _compared(table: Table, real: DataFrame, rebuilt: DataFrame) -> Compared:
    """Row by row of the table's key, in all columns."""
    names = dict.fromkeys((*real.columns, *rebuilt.columns))
    columns = [n for n in names if not n.startswith("_") or n in _ORDER_COLUMNS]
    key = [name for name in _key(table) if name in names]
    return compare(real, rebuilt, Matching("dt", key, columns, key))


def _key(table: Table) -> tuple[str, ...]:
    """What no two rows of a table have in common; () where any may be the same."""
    if not table.key or table.write.appends:
        return ()
    if table.write.keeps_versions:
        return (*table.key, "valid_from")
    if table.is_typed:
        return (*table.key, "dt") if table.day is not None else table.key
    return (*table.key, "dt")
