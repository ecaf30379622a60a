"""Tables in a catalog: Spark's own, with or without a Hive metastore, or one of its plugins."""

from incremental_assets.registration.register import (
    Planned,
    Registered,
    Registration,
    planned,
    require_catalog,
)

__all__ = ["Planned", "Registered", "Registration", "planned", "require_catalog"]
