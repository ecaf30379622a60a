"""A year of real grocery sales, replayed as feeds that land late, twice and damaged."""

from incremental_assets.retail.feed.land import FEEDS, LandedPart, LandSummary, land, send_again

__all__ = ["FEEDS", "LandSummary", "LandedPart", "land", "send_again"]
