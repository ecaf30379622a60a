"""Contradictions in the definition of a gold table, refused when it is defined."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from incremental_assets.choices import did_you_mean
from incremental_assets.errors import DefinitionError
from incremental_assets.quality.expressions import unknown_columns
from incremental_assets.write_checks import check_write

if TYPE_CHECKING:
    from incremental_assets.table import AsOf, Table


def check_gold(table: Table) -> None:
    """Raise DefinitionError, naming the table, for a gold table that cannot be loaded."""
    name = table.name
    check_write(table)
    write = f"{type(table.write).__name__}()"
    facts = table.facts
    if facts is None or table.transform is None or table.upstreams[0].table is not facts:
        raise DefinitionError(
            f"{name}: its first read has to be SameDay(…), and it has a transform."
        )
    if any(read.values for read in table.same_days):
        raise DefinitionError(
            f"{name}: values= marks the rows of bronze tables; here the transform gets a frame of "
            "each table, and can add the column."
        )
    for read in table.lookups:
        other = read.table
        if other.layer != "silver" and not other.write.recomputes_keys:
            raise DefinitionError(
                f"{name}: AsOf() finds the days that look up a changed row by its row hash, and "
                f"{other.name} has none. Look up a silver table, or one with RecomputeKeys()."
            )
        _check_lookup(table, facts, read)
    _check_sums(table, facts)
    row_by_row = facts.write.keeps_latest and facts.day is not None and facts.log is None
    if table.write.keeps_latest and not (row_by_row and table.key == facts.key):
        raise DefinitionError(
            f"{name}: {write} joins only the rows that changed, so it needs the key of its facts "
            f"({', '.join(facts.key)}), and facts that stay on their day: a silver table with "
            "Merge() and a `day`. Use ReplaceDay()."
        )
    if table.write.recomputes_keys and (not table.key or len(table.reads) != 1):
        raise DefinitionError(
            f"{name}: {write} needs the key whose rows are recomputed, and reads one table."
        )
    if table.write.recomputes_keys and facts.layer != "silver":
        raise DefinitionError(
            f"{name}: {write} finds what changed by the row hashes of a silver table; "
            f"{facts.name} has none."
        )


def _check_lookup(table: Table, facts: Table, read: AsOf) -> None:
    """Whether both sides have the columns by which changed versions are found in the facts."""
    for of, names in ((facts, (read.key, read.at)), (read.table, (read.key, read.valid_from))):
        known = {column.lower() for column in _declared(of)}
        missing = [name for name in names if name.lower() not in known]
        if known and missing:
            raise DefinitionError(
                f"{table.name}: AsOf() of {read.table.name} names {missing[0]!r}, and the contract "
                f"of {of.name} has no such column; so the days that look up a changed version "
                "could not be found. Correct the name; or, where the column comes from another "
                "lookup, join that in a gold table, and this one in a second over it."
            )


def _declared(table: Table) -> Collection[str]:
    """The columns of a table, where its contract has them all; else they are known of a frame."""
    if not table.has_declared_columns or table.schema is None:
        return ()
    return {*table.schema.columns, *table.write.validity, "dt"}


def _check_sums(table: Table, facts: Table) -> None:
    known = _declared(facts)
    if table.sums is None or not known:
        return
    for name, (read, _) in table.sums.sums.items():
        missing = unknown_columns(table.name, read, known)
        if missing:
            meant = did_you_mean(missing[0], known) or ". Correct the sum, or declare the column."
            raise DefinitionError(
                f"{table.name}: the sum {name!r} of its upstream is {read!r}, and the contract of "
                f"{facts.name} has no column {missing[0]!r}{meant}"
            )
