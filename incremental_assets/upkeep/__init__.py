"""Keeping a lake fast and small: `maintain`."""

from incremental_assets.upkeep.maintain import maintain
from incremental_assets.upkeep.result import STEPS, Asked, Kept, Step, Upkeep

__all__ = ["STEPS", "Asked", "Kept", "Step", "Upkeep", "maintain"]
