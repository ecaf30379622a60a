"""Change detector for sources with a column that says when a row last changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.watermark import Advance, Nulls, Seen, checked, furthest
from incremental_assets.errors import DefinitionError


@dataclass(frozen=True)
class Timestamp(Detector):
    """Rows whose timestamp is at or above the watermark, without those that are loaded already.

    The rows at the watermark's own instant are read again and told apart by their content, so one
    that comes later is neither lost nor loaded twice. `lookback` widens what is read, not what is
    recorded: for rows that become visible late. Rows more than `max_clock_skew` ahead of the clock
    never move the watermark, which would silence the source until then: they are quarantined, or
    loaded (`future="include"`). `nulls` says what becomes of rows without a timestamp. Values
    without an offset are UTC.

    `watermark` is a function of one's own, from the watermark before and what was `Seen` to the
    new one; a subclass may override `next_watermark` instead.
    """

    name: ClassVar[str] = "timestamp"

    column: str
    lookback: timedelta = timedelta(0)
    nulls: Nulls = "raise"
    max_clock_skew: timedelta = timedelta(minutes=5)
    future: Literal["quarantine", "include"] = "quarantine"
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if self.lookback < timedelta(0) or self.max_clock_skew < timedelta(0):
            raise DefinitionError(
                f"Timestamp({self.column!r}): lookback and max_clock_skew are not negative; found "
                f"{self.lookback} and {self.max_clock_skew}."
            )

    def read_from(self, watermark: datetime | None) -> datetime | None:
        """Rows at this instant and above may be new; None: all."""
        try:
            return None if watermark is None else watermark - self.lookback
        except OverflowError:
            return None

    def next_watermark(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The watermark after a load; between the one before and the highest that was seen."""
        found: datetime | None = (self.watermark or furthest)(before, seen)
        return found

    def advanced(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The next watermark, checked. Raises WatermarkError."""
        after: datetime | None = checked(
            self.column, before, self.next_watermark(before, seen), seen
        )
        return after
