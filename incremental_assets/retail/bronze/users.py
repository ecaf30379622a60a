"""Events of the user table's log as they landed: every line, good or bad, on its landing day."""

from __future__ import annotations

from incremental_assets import (
    Append,
    ChangeLog,
    LandedFiles,
    Table,
    fail,
    no_empty_files,
    rows_delivered,
    warn,
)

USERS = Table(
    name="bronze/users",
    description="Debezium's events of the user table as they landed, exactly once.",
    reads=(LandedFiles("users"),),
    changes=ChangeLog.debezium(time="updated_at"),  # a line without an envelope is a row
    rules=(*fail(rows_delivered()), *warn(no_empty_files())),
    write=Append(),
    owners=("team:ingest",),
)
