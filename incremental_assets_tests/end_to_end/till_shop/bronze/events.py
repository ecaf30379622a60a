from incremental_assets.retail.bronze.events import EVENTS

__all__ = ["EVENTS"]
