"""A year of real grocery sales, replayed as feeds that land late, twice and damaged."""

from incremental_assets.retail.feed.land import LandedPart, LandSummary, land, send_again

__all__ = ["LandSummary", "LandedPart", "land", "send_again"]
