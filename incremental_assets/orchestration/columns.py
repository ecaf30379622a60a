"""A table's columns as Dagster shows them: types, descriptions, constraints, and where from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from deltalake import Field

from incremental_assets.delta.delta_log import columns_of
from incremental_assets.lineage import Origin, lineage_of
from incremental_assets.quality.rule import RowRule
from incremental_assets.table import Table

# What the load itself puts there.
_OWN = {
    "_batch": "The batch that last wrote the row.",
    "_landing_day": "The UTC day on which the row landed.",
    "_day": "The day whose silver partition judges the row: its business day, if that is in time.",
    "_file": "The landed file, below the landing root.",
    "payload": "The line as it landed, any JSON.",
    "_raw": "The line as it landed, if it is not one JSON value; bytes in base64.",
    "_hash": "A hash of the row's own fields, which decides between versions that are equal else.",
    "dt": "The UTC day of the partition.",
    "valid_from": "From when on this version was valid.",
    "valid_to": "Until when, that moment left out; null: it is still.",
    "is_current": "Whether this version is valid still.",
}
_NULLABLE = dg.TableColumnConstraints()


Origins = Mapping[str, Sequence[Origin]]


def declared_columns(table: Table) -> dg.TableSchema | None:
    """The columns of the contract, before anything was loaded; None without one."""
    if table.schema is None:
        return None
    return _schema(table, {name: kind.sql for name, kind in table.schema.columns.items()}, {})


def found_columns(table: Table, fields: Sequence[Field], origins: Origins) -> dg.TableSchema:
    """The columns of the Delta table."""
    types = {f.name: str(getattr(f.type, "type", f.type)) for f in fields}
    return _schema(table, types, {} if table.is_typed else origins)


def origins_of(table: Table, columns: Sequence[str], lake: str) -> Origins:
    """Which columns of the upstreams, as they are now, each column is made of; none of bronze."""
    return lineage_of(table, columns, lambda upstream: columns_of(f"{lake}/{upstream.name}"))


def column_lineage(origins: Origins) -> dg.TableColumnLineage:
    """The same in Dagster's words."""
    return dg.TableColumnLineage(
        {
            name: [
                dg.TableColumnDep(asset_key=dg.AssetKey(o.table.split("/")), column_name=o.column)
                for o in some
            ]
            for name, some in origins.items()
        }
    )


def _schema(table: Table, types: Mapping[str, str], origins: Origins) -> dg.TableSchema:
    columns = [
        dg.TableColumn(
            name,
            kind,
            description=_description(table, name, origins.get(name, ())),
            constraints=_constraints(table, name),
        )
        for name, kind in types.items()
    ]
    return dg.TableSchema(columns, constraints=_table_constraints(table))


def _description(table: Table, name: str, origins: Sequence[Origin]) -> str | None:
    """What it is, and what it is made of: the open-source UI draws no lineage of columns."""
    declared = table.schema.columns.get(name) if table.schema is not None else None
    about = declared.description if declared is not None else _OWN.get(name, "")
    made_of = ", ".join(f"{o.table}.{o.column}" for o in origins)
    return " ".join(filter(None, (about, made_of and f"From {made_of}."))) or None


def _constraints(table: Table, name: str) -> dg.TableColumnConstraints:
    """What every row in the table keeps: the rules that let no other row in."""
    kept = [rule for rule in table.row_rules if rule.columns == (name,) and _is_kept(rule)]
    if not kept and not _is_alone(table, name):
        return _NULLABLE
    return dg.TableColumnConstraints(
        nullable=not any(rule.name == f"{name}_not_null" for rule in kept),
        unique=_is_alone(table, name),
        other=[rule.description for rule in kept if rule.name != f"{name}_not_null"],
    )


def _is_kept(rule: RowRule) -> bool:
    if rule.severity == "fail":
        return not rule.rows_allowed and not rule.share_allowed
    return rule.severity == "quarantine"


def _key_of_rows(table: Table) -> tuple[str, ...]:
    """What no two rows share; a fact whose day must not change is looked up on its day alone."""
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
