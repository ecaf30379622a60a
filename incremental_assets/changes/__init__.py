"""Change detectors: values that find what is new in a source."""

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_offsets import Offsets
from incremental_assets.changes.by_sequence import Sequence
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.by_upserts import Upserts
from incremental_assets.changes.detector import Detector
from incremental_assets.changes.files import Files

__all__ = [
    "ChangeLog",
    "Detector",
    "Files",
    "Offsets",
    "Sequence",
    "SnapshotDiff",
    "Timestamp",
    "Upserts",
]
