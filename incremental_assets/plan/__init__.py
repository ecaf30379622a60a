"""What a load of given days would do, found out from listings and the ledger, without Spark."""

from incremental_assets.plan.derived import not_read, stale_days, upstream_held
from incremental_assets.plan.pending import PendingDays, pending_days, why_pending
from incremental_assets.plan.plan import plan_table
from incremental_assets.plan.replay import plan_replay
from incremental_assets.plan.restate import plan_restate, require_restatable
from incremental_assets.plan.work import DayWork, Plan, Work, file_entries

__all__ = [
    "DayWork",
    "PendingDays",
    "Plan",
    "Work",
    "file_entries",
    "not_read",
    "pending_days",
    "plan_replay",
    "plan_restate",
    "plan_table",
    "require_restatable",
    "stale_days",
    "upstream_held",
    "why_pending",
]
