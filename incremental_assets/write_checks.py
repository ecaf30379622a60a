"""What a write has to be able to do in a layer of the lake, refused when a table is defined.

Bronze is an `Append()`. In silver and gold the facts of the protocol count, of a write of one's own
as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from incremental_assets.errors import DefinitionError
from incremental_assets.writes import Append

if TYPE_CHECKING:
    from incremental_assets.table import Table


def check_write(table: Table) -> None:
    """Raise DefinitionError, naming what the write lacks for the table's layer."""
    if table.layer == "bronze":
        _check_bronze(table)
    elif table.is_typed:
        _check_typed(table)
    else:
        _check_gold(table)


def _check_bronze(table: Table) -> None:
    if table.write != Append():
        raise DefinitionError(
            f"{table.name}: a bronze table keeps what arrived; use Append(). A write of your own "
            "is for silver, which is made of it."
        )


def _check_typed(table: Table) -> None:
    name, write = table.name, table.write
    why = ""
    if write.recomputes_keys:
        why = "recomputes keys, which is for gold"
    elif write.replaces_by_batch:
        why = "makes the result depend on which rows come in one load (`replaces_by_batch`)"
    elif write.replaced_partition:
        why = "replaces days whole, and a load reads their new rows alone"
    elif not (write.appends or write.by_key):
        why = "declares neither that all rows stay (`appends`), nor that they have a key (`by_key`)"
    if why:
        raise DefinitionError(
            f"{name}: {_named(table)} {why}. A table over bronze is an Append, a Merge or an SCD2, "
            "or has a write of your own that takes new rows as they come."
        )
    if table.schema is None or not (table.key or write.appends):
        raise DefinitionError(f"{name}: {_named(table)} needs a key and a schema contract.")
    if write.appends and (table.log is not None or table.key or table.version_by):
        raise DefinitionError(
            f"{name}: {_named(table)} keeps every row, so nothing is deleted and no version "
            "decides; leave key and version_by out, or use Merge() or SCD2()."
        )
    if table.log is not None and not write.applies_deletes:
        raise DefinitionError(
            f"{name}: it reads changes, in which rows are deleted, and {_named(table)} cannot "
            "delete (`applies_deletes`). Use Merge() or SCD2()."
        )
    if write.by_key and table.day is None and not write.rebuilds_keys:
        raise DefinitionError(
            f"{name}: without a `day` the rows of a key may be on any, so a repaired day is "
            f"rebuilt by its keys, and {_named(table)} has no `rebuild`. Write one, or give the "
            "table a `day`."
        )


def _check_gold(table: Table) -> None:
    name, write = table.name, table.write
    by_day = write.replaced_partition and not write.replaces_by_batch
    if write.appends or not (by_day or write.recomputes_keys or write.keeps_latest):
        raise DefinitionError(
            f"{name}: a gold table is rebuilt by day, recomputed by key, or merged; use "
            "ReplaceDay(), RecomputeKeys() or Merge(), or a write of your own that declares which: "
            "by `replaced_partition`, `recomputes_keys` or `keeps_latest`."
        )
    if not by_day and not write.by_key:
        raise DefinitionError(
            f"{name}: {_named(table)} finds rows by a key, and does not say so (`by_key`)."
        )
    if write.replaced_partition not in ("", "dt"):
        raise DefinitionError(
            f"{name}: a table of the lake is partitioned by dt, and {_named(table)} replaces "
            f"partitions of {write.replaced_partition!r}. Leave its day out."
        )


def _named(table: Table) -> str:
    return f"{type(table.write).__name__}()"
