"""How a plan looks into its sources: once, for nothing lands while it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.plan.looks import Counted, RememberedLooks
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored import FixedSource, StoredSource
from incremental_assets.sources.stored_days import rows_by_day


@dataclass
class OneLook(RememberedLooks):
    """Lists a source once, and counts it once for all `days`, whichever of them are planned."""

    days: DayRange = field(kw_only=True)
    _listed: dict[tuple[str, date], list[SourceFile]] = field(default_factory=dict)
    _fixed: dict[StoredSource, FixedSource] = field(default_factory=dict)
    _of_all: dict[tuple[str, str, str, str], Counted] = field(default_factory=dict)

    def listed(
        self, feed: LandedFiles, landing: str, days: Sequence[date]
    ) -> Mapping[date, list[SourceFile]]:
        new = [day for day in days if (feed.feed, day) not in self._listed]
        for day, files in super().listed(feed, landing, new).items():
            self._listed[feed.feed, day] = files
        return {day: self._listed[feed.feed, day] for day in days}

    def fixed(self, source: StoredSource) -> FixedSource:
        if source not in self._fixed:
            self._fixed[source] = source.fix()
        return self._fixed[source]

    def rows_by_day(self, fixed: FixedSource, day: str, cursor: str, span: DayRange) -> Counted:
        asked = (fixed.path, fixed.mark, day, cursor)
        if asked not in self._of_all:
            self._of_all[asked] = rows_by_day(fixed, day, cursor, self.days)
        return self._of_all[asked]
