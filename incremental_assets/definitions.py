"""What Dagster loads: the tables that INCREMENTAL_ASSETS_TABLES names, as assets."""

from incremental_assets.catalog import tables
from incremental_assets.orchestration.build import code_location

defs = code_location(tables())
