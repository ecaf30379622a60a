"""A table's columns as Dagster shows them: types, descriptions, constraints and lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from deltalake import Field

from incremental_assets.descriptions import Origins, column_description
from incremental_assets.orchestration.naming import Naming
from incremental_assets.quality.rule import RowRule
from incremental_assets.table import Table

_NULLABLE = dg.TableColumnConstraints()


def declared_columns(table: Table) -> dg.TableSchema | None:
    """The columns of the contract, before anything was loaded; None without one."""
    if table.schema is None:
        return None
    return _schema(table, {name: kind.sql for name, kind in table.schema.columns.items()}, {})


def found_columns(table: Table, fields: Sequence[Field], origins: Origins) -> dg.TableSchema:
    """The columns of the Delta table."""
    types = {f.name: str(getattr(f.type, "type", f.type)) for f in fields}
    return _schema(table, types, origins)


def column_lineage(origins: Origins, naming: Naming) -> dg.TableColumnLineage:
    """The same as Dagster's metadata."""
    return dg.TableColumnLineage(
        {
            name: [
                dg.TableColumnDep(asset_key=naming.key(o.table), column_name=o.column) for o in some
            ]
            for name, some in origins.items()
        }
    )


def _schema(table: Table, types: Mapping[str, str], origins: Origins) -> dg.TableSchema:
    columns = [
        dg.TableColumn(
            name,
            kind,
            description=column_description(table, name, origins.get(name, ())) or None,
            constraints=_constraints(table, name),
        )
        for name, kind in types.items()
    ]
    return dg.TableSchema(columns, constraints=_table_constraints(table))


def _constraints(table: Table, name: str) -> dg.TableColumnConstraints:
    """What holds for every row in the table: the rules that admit no other row."""
    enforced = [rule for rule in table.row_rules if rule.columns == (name,) and _is_enforced(rule)]
    if not enforced and not _is_alone(table, name):
        return _NULLABLE
    return dg.TableColumnConstraints(
        nullable=not any(rule.name == f"{name}_not_null" for rule in enforced),
        unique=_is_alone(table, name),
        other=[rule.description for rule in enforced if rule.name != f"{name}_not_null"],
    )


def _is_enforced(rule: RowRule) -> bool:
    if rule.severity == "fail":
        return not rule.rows_allowed and not rule.share_allowed
    return rule.severity == "quarantine"


def _key_of_rows(table: Table) -> tuple[str, ...]:
    """The columns that are unique together; with a business day, the day is one of them."""
    if not table.write.keeps_latest or not table.key:
        return ()
    by_day = table.day is not None or not table.is_typed
    return (*table.key, "dt") if by_day else table.key


def _is_alone(table: Table, name: str) -> bool:
    return _key_of_rows(table) == (name,)


def _table_constraints(table: Table) -> dg.TableConstraints | None:
    key = _key_of_rows(table)
    if not key:
        return None
    return dg.TableConstraints(other=[f"one row per {', '.join(key)}"])
