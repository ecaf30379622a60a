"""User versions as they landed: every line, good or bad, on the day it landed."""

from __future__ import annotations

from incremental_assets.lake.strategy import Append
from incremental_assets.quality.rules import fail, no_empty_files, rows_delivered, warn
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table

USERS = Table(
    name="bronze/users",
    description="Lines of the user feed as they landed, exactly once, with their file.",
    reads=(LandedFiles("users"),),
    rules=(*fail(rows_delivered()), *warn(no_empty_files())),
    write=Append(),
    owners=("team:ingest",),
)
