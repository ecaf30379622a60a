from __future__ import annotations

from incremental_assets.changes import ChangeLog
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table
from incremental_assets.writes import Append

USERS = Table(
    name="bronze/users",
    description="Events of the user table's log.",
    reads=(LandedFiles("users"),),
    changes=ChangeLog.debezium(),
    write=Append(),
)
