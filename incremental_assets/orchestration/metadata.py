"""What a load shows in the UI: Dagster's standard names, and numbers that can be plotted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from incremental_assets.lake.delta_log import open_table
from incremental_assets.load import DayResult
from incremental_assets.quality.judge import RuleResult


def day_metadata(result: DayResult) -> Mapping[str, Any]:
    """The metrics of one day."""
    if not result.entries:
        return {"dagster/partition_row_count": 0, "new_rows": 0, "note": "nothing new"}
    entry = result.entries[-1]
    rows = next((t.rows for t in entry.touched if t.day == entry.day), 0)
    return {
        "dagster/partition_row_count": rows,
        "batch": entry.batch,
        "mode": entry.mode,
        "rows_read": entry.rows_read,
        "rows_inserted": entry.rows_inserted,
        "rows_updated": entry.rows_updated,
        "rows_deleted": entry.rows_deleted,
        "rows_quarantined": entry.rows_quarantined,
        "rows_late": entry.rows_late,
        "bytes_read": entry.bytes,
        "files": len(entry.files),
        "seconds": entry.seconds,
        "watermark": {w.upstream: [w.low, w.high] for w in entry.windows},
        **({"watermark_value": entry.high} if entry.high else {}),
        "days_touched": {str(t.day): t.rows for t in entry.touched},
        **{
            f"quarantined/{name}": check.broken
            for name, check in result.checks.items()
            if check.severity == "quarantine"
        },
    }


def table_metadata(path: str, name: str) -> Mapping[str, Any]:
    """The table as it is now: its columns, name and place."""
    table = open_table(path)
    if table is None:
        return {"dagster/table_name": name, "dagster/uri": path}
    columns = [dg.TableColumn(f.name, _type(f.type)) for f in table.schema().fields]
    return {
        "dagster/table_name": name,
        "dagster/uri": path,
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "delta_version": table.version(),
    }


def check_metadata(result: RuleResult) -> Mapping[str, Any]:
    """A rule's result as numbers and in words, with the keys of a few rows that broke it."""
    about: dict[str, Any] = {
        "value": float(result.value),
        "threshold": float(result.threshold),
        "rows": result.rows,
        "found": result.found,
    }
    if result.broken:
        about |= {"broken": result.broken, "share": result.broken / max(result.rows, 1)}
    if result.examples:
        about["examples"] = "; ".join(result.examples)
    return about


def _type(delta_type: Any) -> str:
    return str(getattr(delta_type, "type", None) or delta_type)
