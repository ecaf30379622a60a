"""Reports on the retail tables: assets downstream of gold, and the page that shows them."""

from incremental_assets.retail.reports.assets import reports

__all__ = ["reports"]
