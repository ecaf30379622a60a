"""The part of a change log that was not read yet: files, or those of a Delta table's commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.changes.detector import Detector
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.sources.source import Added, FixedSource, Version


@dataclass(frozen=True)
class LogFiles:
    """The part of a log that is new.

    Of files, those in `files`; of a source of versions, what those up to `version` have `added`, or
    all of it where that is no longer known (None). Events that come twice change nothing, so
    to read too much is safe.
    """

    fixed: FixedSource
    files: tuple[FileEntry, ...] = ()
    version: Version | None = None
    added: Added | None = None
    nothing: bool = False

    def rows(self, frames: Frames, known: Mapping[str, DataType]) -> DataFrame:
        """The new events as rows of columns."""
        if self.added is None:
            return self.fixed.rows(frames, known, self._only)
        return self.added.rows(frames, known)

    def objects(self, frames: Frames) -> DataFrame:
        """The new events as they are written: JSON values, or objects of their columns."""
        if self.added is None:
            return self.fixed.objects(frames, self._only)
        return self.added.objects(frames)

    def payloads(self, frames: Frames) -> DataFrame:
        """The new events as JSON values."""
        if self.added is None:
            return self.fixed.payloads(frames, self._only)
        return self.added.payloads(frames)

    @property
    def _only(self) -> list[str] | None:
        """The files to read; None for the whole of a version."""
        return None if self.version is not None else [file.path for file in self.files]


def bounded(
    frames: Frames, log: LogFiles, most: int | None, passed: Collection[str] = ()
) -> LogFiles:
    """No more than so many events, in whole files by their path; one with events at least.

    They are counted in a pass of their own: how many a file has is known by reading it. Those of
    the files that are `passed` do not count. Of a Delta table's commits one is taken at a time.
    """
    if most is None or len(log.files) < 2:
        return log
    names = {file.path: file for file in log.files}
    events = log.payloads(frames)
    counts = {r["_file"]: r["count"] for r in events.groupBy("_file").count().collect()}
    taken: list[FileEntry] = []
    total = 0
    for path in sorted(names):
        count = 0 if path in passed else counts.get(path, 0)
        if total and total + count > most:
            break
        total += count
        taken.append(names[path])
    return replace(log, files=tuple(taken))


def new_files(
    changes: Detector,
    fixed: FixedSource,
    known: Mapping[str, FileEntry],
    read: Version | None,
    most: int | None = None,
) -> LogFiles:
    """What is new, found without Spark.

    Of files those that `changes` takes for new, or for changed since they were `known`; of versions
    all after the one that was `read`, or as many as have about `most` events.

    Raises SourceError if the log cannot be listed, or some of it is gone.
    """
    if fixed.version is not None:
        return commits_since(fixed, read, most)
    new, changed = changes.new_and_changed(fixed.files, known, fixed.tagged)
    files = tuple(FileEntry(f.path, f.size, f.tag, f.modified) for f in (*new, *changed))
    return LogFiles(fixed, files, nothing=not files)


def commits_since(fixed: FixedSource, read: Version | None, most: int | None = None) -> LogFiles:
    """What the versions after `read` brought: all of them, or as many as have about `most` rows."""
    if read == fixed.version:
        return LogFiles(fixed, version=read, nothing=True)
    version = fixed.version if most is None else fixed.version_after(read, most)
    is_whole = read is None and version == fixed.version
    added = None if is_whole else fixed.added_since(read, version)
    return LogFiles(fixed, version=version, added=added)
