"""What a load did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from incremental_assets.engine.target_steps import Loaded
from incremental_assets.quality.judge import RuleResult


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one load of a table did.

    `records_read` are the rows that were new to the load; of these `records_quarantined` were
    quarantined. `records_loaded` is what it changed in the target: inserted, updated and deleted
    rows together. With SCD2, inserted are new versions, updated those whose interval or values
    changed, and deleted the deletes that ended one. `watermark_before` and `watermark_after` are
    ISO 8601 in UTC, or digits; None before the first load. `target_version` is the Delta version
    of the target, None if there is none yet. `notes` are what a person may want to know: gaps,
    rows from the future, what was quarantined and why. `checks` are what each rule found.
    """

    table_name: str
    records_read: int
    records_loaded: int
    records_inserted: int
    records_updated: int
    records_deleted: int
    records_quarantined: int
    watermark_before: str | None
    watermark_after: str | None
    duration_seconds: float
    target_version: int | None
    notes: tuple[str, ...] = ()
    checks: tuple[RuleResult, ...] = ()

    @classmethod
    def of(cls, table: str, loaded: Loaded) -> LoadResult:
        """The result of a load."""
        entry = loaded.entry
        inserted, updated, deleted = (
            (entry.rows_inserted, entry.rows_updated, entry.rows_deleted) if entry else (0, 0, 0)
        )
        return cls(
            table_name=table,
            records_read=entry.rows_read if entry else 0,
            records_loaded=inserted + updated + deleted,
            records_inserted=inserted,
            records_updated=updated,
            records_deleted=deleted,
            records_quarantined=entry.rows_quarantined if entry else 0,
            watermark_before=loaded.before or None,
            watermark_after=loaded.after or None,
            duration_seconds=round(loaded.seconds, 3),
            target_version=loaded.version,
            notes=loaded.notes,
            checks=loaded.checks,
        )
