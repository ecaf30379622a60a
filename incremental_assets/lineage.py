"""From which columns of its upstreams each column of a table is made.

A typed column comes from bronze's payload, and that is exact. The table's `lineage` declares the
origins of what a transform computes; a column that it leaves out comes from an upstream's column of
that name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from incremental_assets.delta.scd2 import VALIDITY
from incremental_assets.errors import DefinitionError

if TYPE_CHECKING:
    from incremental_assets.table import Table

REST = "*"
Lineage = Mapping[str, Sequence[str]]
"""Column → `"layer/table.column"` of each column that it is made of.

`{"user_*": ("silver/users.*",)}` covers all columns that begin so and have no entry of their
own.
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of an upstream."""

    table: str
    column: str

    @classmethod
    def of(cls, text: str) -> Origin:
        table, _, column = text.partition(".")
        return cls(table, column)


def check_lineage(table: Table) -> None:
    """Raise DefinitionError for a lineage that names what is not read, or not there."""
    if table.lineage and (table.layer == "bronze" or table.is_typed):
        raise DefinitionError(
            f"{table.name}: lineage is for what a gold table makes; leave it out: the columns of "
            "bronze and silver come from what landed."
        )
    read = {upstream.table.name: upstream.table for upstream in table.upstreams}
    for column, sources in table.lineage.items():
        if isinstance(sources, str):
            raise DefinitionError(
                f"{table.name}: lineage of {column!r} is a text; give a tuple of texts."
            )
        for source in sources:
            origin = Origin.of(source)
            if origin.table not in read or not origin.column:
                raise DefinitionError(
                    f"{table.name}: lineage of {column!r} names {source!r}; expected "
                    f"'table.column' with one of the tables that it reads: {sorted(read)}."
                )
            if origin.column.endswith(REST) and not column.endswith(REST):
                raise DefinitionError(
                    f"{table.name}: lineage of {column!r} names {source!r}, and one column is not "
                    "made of all of them; name the column, or give both a *."
                )
            _check_there(table, column, origin, read[origin.table])


def _check_there(table: Table, column: str, origin: Origin, upstream: Table) -> None:
    """Refuse a column that the upstream's contract lacks; a transform may add any column."""
    known = {"dt", *VALIDITY, *(upstream.schema.columns if upstream.schema else ())}
    if upstream.schema is None or upstream.transform is not None or REST in origin.column:
        return
    if origin.column not in known:
        raise DefinitionError(
            f"{table.name}: lineage of {column!r} names {origin.column!r}, which the contract of "
            f"{upstream.name} does not declare; it has {sorted(upstream.schema.columns)}."
        )


def lineage_of(
    table: Table, columns: Sequence[str], columns_of: Callable[[Table], Collection[str]]
) -> Mapping[str, Sequence[Origin]]:
    """The origins of each of the table's columns that has any.

    `columns_of` returns those of an upstream as it is now; a column that it lacks is no origin.
    Columns about the load, which begin with `_`, have none.
    """
    own = [name for name in columns if not name.startswith("_")]
    if table.layer == "bronze":
        return {}
    if table.is_typed:
        found = {name: _landed(table, name) for name in own}
    else:
        there = {read.table.name: set(columns_of(read.table)) for read in table.upstreams}
        found = {name: _made(table, name, there) for name in own}
    return {name: origins for name, origins in found.items() if origins}


def _landed(table: Table, column: str) -> list[Origin]:
    """The column of bronze that a typed column is read from, of each table that is read."""
    there = "payload"
    if column == "dt":
        there = "_day"
    elif column in VALIDITY and table.log is not None:
        there = table.log.changed_at
    reads = table.same_days
    return [Origin(read.table.name, there) for read in reads if column not in read.values]


def _made(table: Table, column: str, there: Mapping[str, Collection[str]]) -> list[Origin]:
    """As declared; else the facts' own column of that name; else by a `*`; else any other's."""
    if column in table.lineage:
        named = [Origin.of(source) for source in table.lineage[column]]
        return [o for o in named if o.column in there[o.table]]
    assert table.facts is not None
    if column in there[table.facts.name]:
        return [Origin(table.facts.name, column)]
    for name, sources in table.lineage.items():
        stem = name.removesuffix(REST)
        if name.endswith(REST) and column.startswith(stem):
            rest = column.removeprefix(stem)
            named = [Origin.of(source.replace(REST, rest)) for source in sources]
            if found := [o for o in named if o.column in there[o.table]]:
                return found
    first = next((name for name, columns in there.items() if column in columns), None)
    return [Origin(first, column)] if first else []
