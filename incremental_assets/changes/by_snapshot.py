"""Change detector for full copies: a snapshot against the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from incremental_assets.changes.watermark import Advance, Seen, checked, furthest
from incremental_assets.errors import DefinitionError

DELETED_SHARE = "deleted_share"


@dataclass(frozen=True)
class SnapshotDiff:
    """Inserts, updates and deletes between two full copies of a table, by a hash of each row.

    `ignore` are columns whose change is none. A snapshot that would delete more than
    `max_deleted_share` (a share of the rows before, 0 to 1) is held back: half a copy looks just like
    that.
    """

    key: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    max_deleted_share: float = 0.2
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if not self.key:
            raise DefinitionError("SnapshotDiff needs a key: one column or several.")
        if not 0 <= self.max_deleted_share <= 1:
            raise DefinitionError(
                f"SnapshotDiff: max_deleted_share is a share from 0 to 1, not {self.max_deleted_share}."
            )

    def advanced(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The watermark after a load, the moment of the last copy. Raises WatermarkError."""
        after: datetime | None = (self.watermark or furthest)(before, seen)
        found: datetime | None = checked("the snapshot", before, after, seen)
        return found
