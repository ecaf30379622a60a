"""Keeping a lake fast and small: `maintain`."""

from incremental_assets.maintenance.result import (
    STEPS,
    MaintainedTable,
    MaintenanceOptions,
    MaintenanceResult,
    MaintenanceStep,
    steps_named,
)
from incremental_assets.maintenance.steps import maintain

__all__ = [
    "STEPS",
    "MaintainedTable",
    "MaintenanceOptions",
    "MaintenanceResult",
    "MaintenanceStep",
    "maintain",
    "steps_named",
]
