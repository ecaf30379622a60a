"""What a load of given days would do, found out from listings and the ledger, without Spark."""

from incremental_assets.plan.derived import not_read, stale_days, upstream_held
from incremental_assets.plan.news import News, landing_days_with_news, source_news
from incremental_assets.plan.plan import plan_table
from incremental_assets.plan.replay import plan_replay
from incremental_assets.plan.restate import plan_restate, require_restatable
from incremental_assets.plan.work import DayWork, Plan, Work, file_entries

__all__ = [
    "DayWork",
    "News",
    "Plan",
    "Work",
    "file_entries",
    "landing_days_with_news",
    "not_read",
    "plan_replay",
    "plan_restate",
    "plan_table",
    "require_restatable",
    "source_news",
    "stale_days",
    "upstream_held",
]
