"""How a plan inspects its sources: once, for nothing lands while it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.plan.inspector import CachedInspector
from incremental_assets.sources.bronze_input import BronzeInput
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.loaded_files import LoadedFiles
from incremental_assets.sources.source import FixedSource, Source


@dataclass
class PlanInspector(CachedInspector):
    """Lists a source once, and reads each of its days once, however often they are planned."""

    _listed: dict[tuple[Feed, date], DayFiles] = field(default_factory=dict)
    _fixed: dict[Source, FixedSource] = field(default_factory=dict)

    def listed(
        self, feed: Feed, landing: str, days: Sequence[date], loaded: LoadedFiles
    ) -> Mapping[date, DayFiles]:
        if feed.listing_needs_loaded:
            found = super().listed(feed, landing, days, loaded)
            self._listed |= {(feed, day): files for day, files in found.items()}
            return found
        new = [day for day in days if (feed, day) not in self._listed]
        for day, files in super().listed(feed, landing, new, loaded).items():
            self._listed[feed, day] = files
        return {day: self._listed[feed, day] for day in days}

    def seen(self, read: BronzeInput | None) -> dict[date, DayFiles]:
        """The files of its landing days that were inspected; of a source there are none."""
        return {day: files for (of, day), files in self._listed.items() if of == read}

    def fixed(self, source: Source) -> FixedSource:
        if source not in self._fixed:
            self._fixed[source] = super().fixed(source)
        return self._fixed[source]
