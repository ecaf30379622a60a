"""A year of real grocery sales, replayed as a feed that lands late, twice and damaged."""

from incremental_assets.demo.land import LandedFolder, LandSummary, land

__all__ = ["LandSummary", "LandedFolder", "land"]
