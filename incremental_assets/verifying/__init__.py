"""Verifying that a table equals a rebuild of it."""

from incremental_assets.verifying.verified import Compared, DayCompared, Verified
from incremental_assets.verifying.verify import verify, verify_target

__all__ = ["Compared", "DayCompared", "Verified", "verify", "verify_target"]
