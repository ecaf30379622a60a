"""Change detector for full copies: a snapshot against the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.watermark import Advance, Seen, checked, furthest
from incremental_assets.errors import DefinitionError

DELETED_SHARE = "deleted_share"


@dataclass(frozen=True)
class SnapshotDiff(Detector):
    """Inserts, updates and deletes between two snapshots of a table, by a hash of each row.

    A change in the columns `ignore` is no change. A snapshot that would delete a larger share of
    the rows before than `max_deleted_share` (0 to 1) is held back, for half a snapshot looks just
    like that.
    """

    name: ClassVar[str] = "snapshot diff"
    is_snapshot: ClassVar[bool] = True
    finds_deletes: ClassVar[bool] = True

    key: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    max_deleted_share: float = 0.2
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if not self.key:
            raise DefinitionError("SnapshotDiff needs a key: one column or several.")
        if not 0 <= self.max_deleted_share <= 1:
            raise DefinitionError(
                "SnapshotDiff: max_deleted_share is a share from 0 to 1, not "
                f"{self.max_deleted_share}."
            )

    def advanced(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The watermark after a load, the moment of the last copy. Raises WatermarkError."""
        after: datetime | None = (self.watermark or furthest)(before, seen)
        found: datetime | None = checked("the snapshot", before, after, seen)
        return found
