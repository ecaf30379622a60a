"""Users: one row per user and version, on the day it landed."""

from __future__ import annotations

from incremental_assets.bronze.users import USERS as LANDED_USERS
from incremental_assets.lake.strategy import Merge
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import fail, not_null, quarantine, quarantined_share
from incremental_assets.quality.types import Text, Timestamp
from incremental_assets.table import ByDay, Table

USERS = Table(
    name="silver/users",
    description="One row per user and updated_at, with every attribute that the feed ever had.",
    reads=(ByDay(LANDED_USERS),),
    key=("user_id", "updated_at"),
    schema=Contract(on_new="evolve", user_id=Text(required=True), updated_at=Timestamp()),
    rules=(
        *quarantine(not_null("user_id"), not_null("updated_at")),
        *fail(quarantined_share(at_most=0.05)),
    ),
    write=Merge(),
    owners=("team:customers",),
)
