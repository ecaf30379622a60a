"""How a plan looks into its sources: once, for nothing lands while it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from incremental_assets.days import DayRange
from incremental_assets.plan.looks import Counted, RememberedLooks
from incremental_assets.sources.stored import FixedSource
from incremental_assets.sources.stored_days import rows_by_day


@dataclass
class OneLook(RememberedLooks):
    """Counts a source once for all days, whichever part of them is planned; `days` are all."""

    days: DayRange = field(kw_only=True)
    _of_all: dict[tuple[str, str, str, str], Counted] = field(default_factory=dict)

    def rows_by_day(self, fixed: FixedSource, day: str, cursor: str, span: DayRange) -> Counted:
        asked = (fixed.path, fixed.mark, day, cursor)
        if asked not in self._of_all:
            self._of_all[asked] = rows_by_day(fixed, day, cursor, self.days)
        return self._of_all[asked]
