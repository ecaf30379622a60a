"""Source inspection: what a plan asks of its sources, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.errors import IncrementalAssetsError, SourceError
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.file_fingerprints import files_by_day
from incremental_assets.sources.loaded_files import LoadedFiles
from incremental_assets.sources.row_fingerprints import rows_by_day
from incremental_assets.sources.source import FixedSource, Source
from incremental_assets.sources.source_file import SourceFile

Tag = Callable[[SourceFile], SourceFile]
Fingerprints = Mapping[date, str] | None
_PathAndColumn = tuple[str, str]
_Cached = tuple[tuple[str, date] | None, Mapping[date, str] | None]


class Inspector:
    """It inspects each time, as a load does: what is claimed must be what exists."""

    def listed(
        self, feed: Feed, landing: str, days: Sequence[date], loaded: LoadedFiles
    ) -> Mapping[date, DayFiles]:
        """The files of these landing days, as they are listed now."""
        return feed.listing(landing, days, loaded)

    def fixed(self, source: Source) -> FixedSource:
        """What a stored source holds, as `fix` finds it.

        Raises SourceError, also for whatever else a source of one's own raises.
        """
        try:
            return source.fix()
        except IncrementalAssetsError:
            raise
        except Exception as error:
            raise SourceError(
                f"{source.path} cannot be inspected, for fix() of {type(source).__name__} raised "
                f"{type(error).__name__}: {error}. Correct what it reads, or the source's code."
            ) from error

    def tags(self, tag: Tag, *known: Container[str]) -> Tag:
        """What gives a file its tag; `known` hold the paths of files that it is compared with."""
        return tag

    def files_by_day(
        self, fixed: FixedSource, column: str, days: Collection[date], last: date
    ) -> Fingerprints:
        """The fingerprint of each day's files, by `files_by_day`."""
        return files_by_day(fixed, column, days, last)

    def rows_by_day(
        self, fixed: FixedSource, column: str, days: Collection[date], last: date
    ) -> Fingerprints:
        """The fingerprint of each day's rows, by `rows_by_day`."""
        return rows_by_day(fixed, column, days, last)


@dataclass
class CachedInspector(Inspector):
    """For an inspection every half minute: nothing is read twice, and no new file at all.

    A file is as it was when its size and modification time are, a stored source when its
    fingerprint is. A file that is compared with nothing keeps its time for a tag.
    """

    _tagged: dict[SourceFile, SourceFile] = field(default_factory=dict)
    _files: dict[_PathAndColumn, _Cached] = field(default_factory=dict)
    _rows: dict[_PathAndColumn, _Cached] = field(default_factory=dict)

    def tags(self, tag: Tag, *known: Container[str]) -> Tag:
        def remembered(file: SourceFile) -> SourceFile:
            if not any(file.path in paths for paths in known):
                return file
            if file not in self._tagged:
                self._tagged[file] = tag(file)
            return self._tagged[file]

        return remembered

    def files_by_day(
        self, fixed: FixedSource, column: str, days: Collection[date], last: date
    ) -> Fingerprints:
        return _cached(self._files, files_by_day, fixed, column, days, last)

    def rows_by_day(
        self, fixed: FixedSource, column: str, days: Collection[date], last: date
    ) -> Fingerprints:
        return _cached(self._rows, rows_by_day, fixed, column, days, last)


def _cached(
    cache: dict[_PathAndColumn, _Cached],
    ask: Callable[[FixedSource, str, Collection[date], date], Fingerprints],
    fixed: FixedSource,
    column: str,
    days: Collection[date],
    last: date,
) -> Fingerprints:
    """The fingerprints of these days; those that are not known of this state are asked for."""
    state, known = cache.get((fixed.path, column), (None, None))
    if state != (fixed.fingerprint, last):
        state, known = (fixed.fingerprint, last), {}
    new = [day for day in days if known is not None and day not in known]
    if known is not None and new:
        more = ask(fixed, column, new, last)
        known = None if more is None else {**known, **{day: more.get(day, "") for day in new}}
    cache[fixed.path, column] = state, known
    return None if known is None else {day: known[day] for day in days if known[day]}


INSPECTOR = Inspector()
