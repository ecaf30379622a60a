"""How planning looks into what a listing cannot tell: a file's content, a table's columns."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored import FixedSource, StoredSource
from incremental_assets.sources.stored_days import rows_by_day

Tag = Callable[[SourceFile], SourceFile]
Counted = Mapping[date | None, str] | None


class Looks:
    """Looks each time, as a load does: what is claimed must be what is there."""

    def listed(
        self, feed: LandedFiles, landing: str, days: Sequence[date]
    ) -> Mapping[date, list[SourceFile]]:
        """The files of these landing days, as `by_day` tells them."""
        return feed.by_day(landing, days)

    def fixed(self, source: StoredSource) -> FixedSource:
        """What a stored source holds, as `fix` tells it."""
        return source.fix()

    def tags(self, tag: Tag, *known: Container[str]) -> Tag:
        """What gives a file its tag; `known` hold the paths of files that it is compared with."""
        return tag

    def rows_by_day(self, fixed: FixedSource, day: str, cursor: str, span: DayRange) -> Counted:
        """What a source has for each day, as `rows_by_day` tells it."""
        return rows_by_day(fixed, day, cursor, span)


@dataclass
class RememberedLooks(Looks):
    """For who looks every half minute: nothing is read twice, and no new file at all.

    A file is as it was when its size and modification mark are, a stored source when its mark is.
    A file that nothing is compared with keeps its mark for a tag.
    """

    _tagged: dict[SourceFile, SourceFile] = field(default_factory=dict)
    _counted: dict[tuple[str, str, DayRange], Counted] = field(default_factory=dict)

    def tags(self, tag: Tag, *known: Container[str]) -> Tag:
        def remembered(file: SourceFile) -> SourceFile:
            if not any(file.path in paths for paths in known):
                return file
            if file not in self._tagged:
                self._tagged[file] = tag(file)
            return self._tagged[file]

        return remembered

    def rows_by_day(self, fixed: FixedSource, day: str, cursor: str, span: DayRange) -> Counted:
        asked = (fixed.path, fixed.mark, span)
        if asked not in self._counted:
            self._counted = {asked: rows_by_day(fixed, day, cursor, span)}
        return self._counted[asked]


LOOK = Looks()
