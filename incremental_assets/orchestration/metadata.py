"""What a load shows in the UI: Dagster's standard names, and numbers that can be plotted."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from incremental_assets.delta.contents import Contents, TableContents, contents_of
from incremental_assets.delta.delta_table import open_table
from incremental_assets.descriptions import origins_of
from incremental_assets.lakehouse import DayResult
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.lazy_mapping import LazyMapping
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.orchestration.columns import (
    column_lineage,
    declared_columns,
    found_columns,
)
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.quality.judge import RuleResult
from incremental_assets.table import Table

STORAGE = "delta"
# What a day shows that a load had nothing to do for: Dagster records it like those that were loaded
# (docs/decisions/days-without-data.md).
NOTHING_NEW = "Nothing is new."
NEVER_LANDED = "No data has landed for this day."
NO_ROWS_ABOVE = "The tables that it reads have no rows of this day."


@dataclass(frozen=True)
class Shown:
    """A table as it is after a load.

    `whole` is the metadata of the table, `contents` what each day holds, `versions` the Delta
    version that last changed a row of a day, and `loaded` the days that were ever loaded; `without`
    says of any other day why it has nothing.
    """

    whole: Mapping[str, Any]
    contents: TableContents = field(default_factory=TableContents)
    versions: Mapping[date, int] = field(default_factory=dict)
    loaded: Container[date] = frozenset()
    without: str = NEVER_LANDED

    def day(self, result: DayResult) -> Mapping[str, Any]:
        """The metrics of one day: what it holds, and what this load did."""
        held = self.contents.day(result.day)
        there = {
            **({"dagster/partition_row_count": held.rows} if held.rows is not None else {}),
            "partition_bytes": held.bytes,
            "partition_files": held.files,
        }
        if not result.entries:
            return {**there, "rows_read": 0, "note": self._why_idle(result)}
        return {**there, **load_metadata(result)}

    def _why_idle(self, result: DayResult) -> str:
        if result.reason:
            return result.reason
        return NOTHING_NEW if result.day in self.loaded else self.without

    def data_version(self, days: Iterable[date]) -> str:
        """The Delta version that last changed a row of these days; 0 if none ever did.

        So a load that finds nothing new, or a commit to other days, does not change it.
        """
        return str(max((self.versions.get(day, 0) for day in days), default=0))


def definition_metadata(table: Table, lake: str) -> Mapping[str, Any]:
    """What is known of a table before it is loaded: its name, path and declared columns."""
    columns = declared_columns(table)
    return {
        "dagster/table_name": table.name,
        "dagster/uri": f"{lake}/{table.name}",
        "dagster/storage_kind": STORAGE,
        # The column that IO managers, such as those of dagster-delta, find a partition by.
        "partition_expr": "_landing_day" if table.layer == "bronze" else "dt",
        **({"dagster/column_schema": columns} if columns is not None else {}),
    }


def definition_tags(table: Table) -> Mapping[str, str]:
    """What tables can be searched by, from their definition."""
    found = {"layer": table.layer, "write": type(table.write).__name__}
    if table.layer == "bronze":
        found["changes"] = type(table.changes).__name__
    return found


def description(table: Table) -> str:
    """The description of the table, and the docstring of its transform."""
    how = table.transform.__doc__ if table.transform is not None else None
    text = "\n".join(line.strip() for line in (how or "").strip().splitlines())
    return f"{table.description}\n\n{text}".strip()


def shown(table: Table, lake: str, history: TableHistory, naming: Naming = ALONE) -> Shown:
    """The table as it is now, by its log and the ledger alone."""
    path = f"{lake}/{table.name}"
    names = {"dagster/table_name": table.name, "dagster/uri": path}
    found = open_table(path)
    loaded, without = history.last_committed, NO_ROWS_ABOVE if table.upstreams else NEVER_LANDED
    if found is None:
        return Shown(names, loaded=loaded, without=without)
    contents = contents_of(found)
    whole = {**names, **_table_metadata(table, lake, found, contents.whole, naming)}
    return Shown(whole, contents, _versions(table, history), loaded, without)


def _versions(table: Table, history: TableHistory) -> Mapping[date, int]:
    """Per day the version that last changed its rows."""
    # A batch of bronze records what it touches by business day.
    by_day = history.by_day if table.layer == "bronze" else history.touching

    def of_day(day: date) -> int:
        versions = (e.target_version for e in reversed(by_day[day]) if e.touched)
        return next((version for version in versions if version is not None), 0)

    return LazyMapping(by_day.keys(), of_day)


def _table_metadata(
    table: Table, lake: str, found: DeltaTable, whole: Contents, naming: Naming
) -> Mapping[str, Any]:
    fields = found.schema().fields
    origins = origins_of(table, [f.name for f in fields], lake)
    return {
        **({"dagster/row_count": whole.rows} if whole.rows is not None else {}),
        "table_bytes": whole.bytes,
        "table_files": whole.files,
        "dagster/column_schema": found_columns(table, fields, origins),
        **({"dagster/column_lineage": column_lineage(origins, naming)} if origins else {}),
        "delta_version": found.version(),
    }


def load_metadata(result: DayResult) -> Mapping[str, Any]:
    """What a load did for a day, by its last batch; nothing where it had none."""
    if not result.entries:
        return {}
    entry = result.entries[-1]
    return {
        "batch": entry.batch,
        "mode": entry.mode,
        "rows_read": entry.rows_read,
        "rows_inserted": entry.rows_inserted,
        "rows_updated": entry.rows_updated,
        "rows_deleted": entry.rows_deleted,
        "rows_quarantined": entry.rows_quarantined,
        "rows_late": entry.rows_late,
        "bytes_read": entry.bytes,
        "files_read": len(entry.files),
        "seconds": entry.seconds,
        **_watermarks(entry),
        "days_touched": {str(t.day): t.rows for t in entry.touched},
        **{
            f"quarantined/{name}": check.broken
            for name, check in result.checks.items()
            if check.severity == "quarantine"
        },
    }


def _watermarks(entry: Entry) -> Mapping[str, Any]:
    """How far each upstream was read, before and after; a source's position in its own type."""
    found: dict[str, Any] = {}
    for window in entry.windows:
        if entry.detector == "batches":
            found[f"watermark_low/{window.upstream}"] = window.low
            found[f"watermark_high/{window.upstream}"] = window.high
        elif window.high:
            found["source_version_low"] = window.low
            found["source_version_high"] = window.high
    for name, position in (("watermark_low", entry.low), ("watermark_high", entry.high)):
        if position:
            found[name] = _position(position)
    return found


def _position(position: str) -> Any:
    """A number or a timestamp where the position is one, which can be plotted; else its text."""
    if position.isascii() and position.isdigit():
        number = int(position)
        return number if number < 2**63 else float(number)
    try:
        return dg.MetadataValue.timestamp(datetime.fromisoformat(position))
    except ValueError:
        return position


def as_markdown(text: str) -> str:
    """Plain text for where the UI renders Markdown: data must not become a link or a picture."""
    return re.sub(r"([\\`*\[\]<>#!|]|:(?=//))", r"\\\1", text)


def check_metadata(result: RuleResult) -> Mapping[str, Any]:
    """A rule's result as numbers and text, with the keys of a few rows that broke it."""
    details: dict[str, Any] = {
        "value": float(result.value),
        "threshold": float(result.threshold),
        "rows": result.rows,
        "found": result.found,
    }
    if result.broken:
        details |= {"broken": result.broken, "share": result.broken / max(result.rows, 1)}
    if result.examples:
        details["examples"] = "; ".join(result.examples)
    return details
