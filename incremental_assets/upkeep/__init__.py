"""Keeping a lake fast and small: `maintain`."""

from incremental_assets.upkeep.keeper import maintain
from incremental_assets.upkeep.result import STEPS, Asked, Kept, Step, Upkeep, steps_named

__all__ = ["STEPS", "Asked", "Kept", "Step", "Upkeep", "maintain", "steps_named"]
