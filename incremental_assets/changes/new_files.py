"""What of a change log was not read yet: its files, or the files of a Delta table's commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.changes.files import Files
from incremental_assets.changes.position import Position
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.sources.delta_news import DeltaFile, delta_files_since
from incremental_assets.sources.payloads import row_objects, row_payloads
from incremental_assets.sources.rows import spelled
from incremental_assets.sources.stored import FixedSource
from incremental_assets.sources.stored_delta import delta_rows


@dataclass(frozen=True)
class LogFiles:
    """The part of a log that is new.

    Of files, those in `files`; of a Delta table, what its commits up to `version` added, or the
    whole table where the log does not tell any more (`added` is None). Events that come twice
    change nothing, so to read too much is safe.
    """

    fixed: FixedSource
    files: tuple[FileEntry, ...] = ()
    version: int | None = None
    added: tuple[DeltaFile, ...] | None = None
    nothing: bool = False

    def rows(self, frames: Frames, known: Mapping[str, DataType]) -> DataFrame:
        """The new events as rows of columns."""
        added = self._added(frames)
        if added is not None:
            return spelled(added, known)
        return self.fixed.rows(frames, known, self._only)

    def objects(self, frames: Frames) -> DataFrame:
        """The new events as they are written: JSON values, or objects of their columns."""
        added = self._added(frames)
        return self.fixed.objects(frames, self._only) if added is None else row_objects(added)

    def payloads(self, frames: Frames) -> DataFrame:
        """The new events as JSON values."""
        added = self._added(frames)
        return self.fixed.payloads(frames, self._only) if added is None else row_payloads(added)

    def _added(self, frames: Frames) -> DataFrame | None:
        """The rows of the files that commits added; None where the source is read itself."""
        if self.added is None or self.version is None:
            return None
        return delta_rows(frames.session, self.fixed.root, self.version, self.added)

    @property
    def _only(self) -> list[str] | None:
        """The files to read; None for the whole of a Delta table."""
        return None if self.version is not None else [file.path for file in self.files]


def bounded(frames: Frames, log: LogFiles, most: int | None) -> LogFiles:
    """No more than so many events, in whole files by their path; one file at least.

    They are counted in a pass of their own: how many a file holds, only reading it tells. Of a
    Delta table's commits one is taken at a time.
    """
    if most is None or len(log.files) < 2:
        return log
    names = {file.path: file for file in log.files}
    events = log.payloads(frames)
    counts = {r["_file"]: r["count"] for r in events.groupBy("_file").count().collect()}
    taken: list[FileEntry] = []
    total = 0
    for path in sorted(names):
        total += counts.get(path, 0)
        if taken and total > most:
            break
        taken.append(names[path])
    return replace(log, files=tuple(taken))


def new_files(
    fixed: FixedSource,
    known: Mapping[str, FileEntry],
    before: Position,
    *,
    one_by_one: bool,
) -> LogFiles:
    """What is new, found without Spark.

    Of files those that are not `known`; of a table's commits all, or the next one.

    Raises SourceError if the log cannot be listed.
    """
    if fixed.version is not None:
        return commits_since(fixed, before.state.get("version"), one_by_one=one_by_one)
    new, changed = Files().new_and_changed(fixed.files, known, fixed.tagged)
    files = tuple(FileEntry(f.path, f.size, f.tag, f.modified) for f in (*new, *changed))
    return LogFiles(fixed, files, nothing=not files)


def commits_since(fixed: FixedSource, read: int | None, *, one_by_one: bool = False) -> LogFiles:
    """What a Delta table's commits after version `read` brought: all, or the next one's."""
    version = fixed.version
    assert version is not None
    if read is None:
        return LogFiles(fixed, version=version)
    if read == version:
        return LogFiles(fixed, version=version, nothing=True)
    if one_by_one and version > read + 1:
        version = read + 1
    news = delta_files_since(fixed.root, read, version)
    if not news.complete:
        return LogFiles(fixed, version=version)
    return LogFiles(fixed, version=version, added=news.files)
