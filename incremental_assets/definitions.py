"""What Dagster loads: the tables that INCREMENTAL_ASSETS_TABLES names, as assets, and reports."""

from incremental_assets import code_location
from incremental_assets.catalog import tables
from incremental_assets.retail.reports import reports

defs = code_location(tables(), downstream=[reports])
