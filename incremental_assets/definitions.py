"""What Dagster loads: the tables that INCREMENTAL_ASSETS_TABLES names, as assets."""

from incremental_assets.catalog import tables
from incremental_assets.orchestration.build import build_definitions
from incremental_assets.settings import Settings

defs = build_definitions(tables(), Settings.from_environment())
