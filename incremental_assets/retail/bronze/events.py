"""Events as they landed: every line, good or bad, on the day it landed."""

from __future__ import annotations

from incremental_assets.lake.strategy import Append
from incremental_assets.quality.rules import fail, no_empty_files, rows_delivered, warn
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table

EVENTS = Table(
    name="bronze/events",
    description="Lines of the shop's event feed as they landed, exactly once, with their file.",
    reads=(LandedFiles("events"),),
    day="event_ts",
    allowed_lateness="default",
    rules=(*fail(rows_delivered()), *warn(no_empty_files())),
    write=Append(),
    owners=("team:ingest",),
)
