"""Users: every version of each, with the time in which it was valid."""

from __future__ import annotations

from incremental_assets import (
    SCD2,
    Contract,
    Instant,
    SameDay,
    Table,
    Text,
    fail,
    not_null,
    quarantine,
    quarantined_share,
)
from incremental_assets.retail.bronze.users import USERS as LANDED_USERS

USERS = Table(
    name="silver/users",
    description="Every version of each user, with every attribute that the feed ever had.",
    reads=(SameDay(LANDED_USERS),),
    key=("user_id",),
    schema=Contract(
        on_new_column="evolve",
        user_id=Text(required=True),
        updated_at=Instant(description="When it last changed (UTC)."),
    ),
    rules=(*quarantine(not_null("user_id")), *fail(quarantined_share(at_most=0.05, min_rows=5))),
    write=SCD2(ignore_changes_in=("updated_at",), valid_time="event"),
    owners=("team:customers",),
)
