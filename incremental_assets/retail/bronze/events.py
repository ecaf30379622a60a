"""Events as they landed: every line, good or bad, on the day it landed."""

from __future__ import annotations

from incremental_assets import (
    Append,
    LandedFiles,
    Table,
    fail,
    no_empty_files,
    rows_delivered,
    warn,
)

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
