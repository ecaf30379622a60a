"""Write strategies: values that decide how rows land in a table, and stage them."""

from incremental_assets.writes.append import Append
from incremental_assets.writes.delete_insert import DeleteInsert
from incremental_assets.writes.merge import Merge
from incremental_assets.writes.overwrite_days import OverwriteDays
from incremental_assets.writes.recompute_keys import RecomputeKeys
from incremental_assets.writes.replace_day import ReplaceDay
from incremental_assets.writes.scd2 import SCD2
from incremental_assets.writes.strategy import WriteStrategy

__all__ = [
    "SCD2",
    "Append",
    "DeleteInsert",
    "Merge",
    "OverwriteDays",
    "RecomputeKeys",
    "ReplaceDay",
    "WriteStrategy",
]
