"""Proving that a table is what building it in one go would make of it."""

from incremental_assets.verifying.verified import Compared, DayCompared, Verified
from incremental_assets.verifying.verify import verify

__all__ = ["Compared", "DayCompared", "Verified", "verify"]
