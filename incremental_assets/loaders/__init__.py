"""The four classic incremental loaders as plain classes; Dagster is not needed."""

from incremental_assets.engine.target_plan import TargetPlan
from incremental_assets.loaders.base import IncrementalLoader
from incremental_assets.loaders.cdc import CDCLoader
from incremental_assets.loaders.delta_diff import DeltaDiffLoader, DetectedChanges
from incremental_assets.loaders.options import LoaderOptions
from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.sequence import SequenceBasedLoader
from incremental_assets.loaders.session import local_session
from incremental_assets.loaders.target import Target
from incremental_assets.loaders.timestamp import TimestampBasedLoader
from incremental_assets.loaders.watermarks import read_watermarks
from incremental_assets.operations.rewind import Rewound
from incremental_assets.verifying.verified import Verified
from incremental_assets.writes import (
    SCD2,
    Append,
    DeleteInsert,
    Merge,
    OverwriteDays,
    ReplaceDay,
)

__all__ = [
    "SCD2",
    "Append",
    "CDCLoader",
    "DeleteInsert",
    "DeltaDiffLoader",
    "DetectedChanges",
    "IncrementalLoader",
    "LoadResult",
    "LoaderOptions",
    "Merge",
    "OverwriteDays",
    "ReplaceDay",
    "Rewound",
    "SequenceBasedLoader",
    "Target",
    "TargetPlan",
    "TimestampBasedLoader",
    "Verified",
    "local_session",
    "read_watermarks",
]
