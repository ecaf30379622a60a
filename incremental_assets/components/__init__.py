"""What the `dg` command line finds of this project: `dg scaffold defs`, `defs.yaml`."""

from incremental_assets.components.incremental_tables import IncrementalTables

__all__ = ["IncrementalTables"]
