"""How a plan looks into its sources: once, for nothing lands while it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.plan.looks import RememberedLooks
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored import FixedSource, StoredSource


@dataclass
class OneLook(RememberedLooks):
    """Lists a source once, and reads each of its days once, however often they are planned."""

    _listed: dict[tuple[str, date], list[SourceFile]] = field(default_factory=dict)
    _fixed: dict[StoredSource, FixedSource] = field(default_factory=dict)

    def listed(
        self, feed: LandedFiles, landing: str, days: Sequence[date]
    ) -> Mapping[date, list[SourceFile]]:
        new = [day for day in days if (feed.feed, day) not in self._listed]
        for day, files in super().listed(feed, landing, new).items():
            self._listed[feed.feed, day] = files
        return {day: self._listed[feed.feed, day] for day in days}

    def seen(self, feed: LandedFiles) -> dict[date, list[SourceFile]]:
        """The files of the landing days that were looked at."""
        return {day: files for (name, day), files in self._listed.items() if name == feed.feed}

    def fixed(self, source: StoredSource) -> FixedSource:
        if source not in self._fixed:
            self._fixed[source] = source.fix()
        return self._fixed[source]
