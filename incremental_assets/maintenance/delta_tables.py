"""Which Delta tables of a lake are maintained, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from incremental_assets.delta.delta_table import bytes_of, open_table
from incremental_assets.delta.side_table import side_table_of
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.engine.snapshot_base import base_path
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class LakeDeltaTable:
    """A Delta table of the lake, and the table by whose lock it is written."""

    name: str
    path: str
    table: Table
    is_quarantine: bool = False


def delta_tables(settings: Settings, tables: Sequence[Table]) -> Iterator[LakeDeltaTable]:
    """Of each table its own Delta table, its side tables, and its quarantine."""
    for table in tables:
        path, quarantined = f"{settings.lake}/{table.name}", quarantine_of(settings, table).path
        for each in (path, side_table_of(path), base_path(path)):
            yield LakeDeltaTable(each.removeprefix(f"{settings.lake}/"), each, table)
        name = quarantined.removeprefix(f"{settings.lake}/")
        yield LakeDeltaTable(name, quarantined, table, is_quarantine=True)


def files_bytes_version(path: str) -> tuple[int, int, int] | None:
    """Files, bytes and version; None where there is no table."""
    table = open_table(path)
    return None if table is None else (len(table.file_uris()), bytes_of(path), table.version())
