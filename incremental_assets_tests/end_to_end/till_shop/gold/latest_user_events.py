from incremental_assets.retail.gold.latest_user_events import LATEST_USER_EVENTS

__all__ = ["LATEST_USER_EVENTS"]
