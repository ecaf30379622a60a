"""A year of real grocery sales, replayed as feeds that land late, twice and damaged."""

from incremental_assets.demo.land import Landed, LandSummary, land

__all__ = ["LandSummary", "Landed", "land"]
