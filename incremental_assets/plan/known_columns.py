"""Columns that definitions name and that are not there, found before anything is new.

A load would find them, too: once there is something to load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from deltalake.exceptions import DeltaError
from polars.exceptions import PolarsError

from incremental_assets.choices import did_you_mean
from incremental_assets.delta.delta_table import open_table
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.code import other_code
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.quality.expressions import unknown_columns
from incremental_assets.quality.rule import DayRule
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def require_known_columns(
    chosen: Sequence[Table],
    tables: Sequence[Table],
    view: LedgerView,
    settings: Settings,
    inspection: Inspector = INSPECTOR,
) -> None:
    """Raise DefinitionError for a column that a source or a table of the lake does not have.

    `tables` are all tables of the lake, of which the `chosen` are checked. Of a bronze table the
    columns that its change detector names are compared with those of a Delta table on this
    machine's disk. Of a gold table those in `sums`, and in rules that reconcile, are compared with
    the tables of the lake, as far as today's code has built them.
    """
    for table in chosen:
        _require_named(table, settings, inspection)
        for what, sql, other in _sides(table, tables):
            known = _stored(other, view, settings)
            missing = unknown_columns(table.name, sql, known) if known else []
            if missing:
                raise DefinitionError(
                    f"{table.name}: {what} is {sql!r}, and {other.name} has no column "
                    f"{missing[0]!r}{_or_else(missing[0], known)} If its transform makes it from "
                    "now on, raise the code_version of that table."
                )


def _require_named(table: Table, settings: Settings, inspection: Inspector) -> None:
    source = table.source_in(settings.landing)
    if source is None:
        return
    try:
        fixed = inspection.fixed(source)
        rows = fixed.scan() if fixed.version is not None else None
        known = rows.collect_schema().names() if rows is not None else []
    except (SourceError, PolarsError, DeltaError, OSError):
        return  # whoever loads it gets the reason
    missing = [name for name in table.changes.named_columns if name not in known]
    if known and missing:
        raise DefinitionError(
            f"{table.name}: {type(table.changes).__name__} names the column {missing[0]!r}, which "
            f"{fixed.path} does not have{_or_else(missing[0], known)}"
        )


def _sides(table: Table, tables: Sequence[Table]) -> Iterator[tuple[str, str, Table]]:
    """What reconciles a gold table: its name, its SQL, and the table whose columns that reads."""
    sums = table.sums.sums if table.sums is not None else {}
    for name, (read, made) in sums.items():
        if table.facts is not None and not table.facts.has_declared_columns:
            yield f"the sum {name!r} of its upstream", read, table.facts
        yield f"its own sum {name!r}", made, table
    for rule in table.rules:
        if isinstance(rule, DayRule) and rule.elsewhere:
            for other in (each for each in tables if each.name == rule.reads_table):
                for name, sql in rule.elsewhere.items():
                    yield f"{name!r} of {rule.name}", sql, other


def _stored(table: Table, view: LedgerView, settings: Settings) -> Collection[str]:
    """The columns that a table of the lake has; none where other code built it, or nothing did."""
    history = view.table(table.name)
    last = max(history.last_committed, default=None)
    if last is None or other_code(table, history, last):
        return ()
    found = open_table(f"{settings.lake}/{table.name}")
    return [field.name for field in found.schema().fields] if found is not None else ()


def _or_else(missing: str, known: Collection[str]) -> str:
    return did_you_mean(missing, known) or f"; it has {', '.join(sorted(known))}."
