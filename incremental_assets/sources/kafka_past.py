"""What was read of a topic, compared with what it has now: nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date

from incremental_assets.errors import SourceError
from incremental_assets.plurals import counted
from incremental_assets.sources.kafka_client import TopicState
from incremental_assets.sources.kafka_days import (
    MessagesByDay,
    NextOffsets,
    from_json,
    in_words,
    lost_ranges,
)
from incremental_assets.sources.source import Past, Version


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """What was known of a topic: up to where it was looked through, and what is to be loaded.

    Where it is to be looked through again (`repeats`), `read` is what was loaded of each day, and
    more may have been. The first time, nothing can be missing; where it `is_another` topic, that is
    accepted.
    """

    low: NextOffsets
    unread: MessagesByDay
    read: Mapping[date, NextOffsets]
    is_first: bool = False
    repeats: bool = False
    is_another: bool = False


NOTHING_KNOWN = TopicProgress({}, {}, {}, is_first=True, repeats=True)
_ANOTHER = replace(NOTHING_KNOWN, is_another=True)


@dataclass(frozen=True, slots=True)
class TopicPast:
    """A topic as it is `now`, for which what was read before is to be found again.

    With `accepts_gaps`, what is gone is logged and no error; with `fixed_partitions`, another
    partition is one, for a key may have moved to it.
    """

    path: str
    now: TopicState
    accepts_gaps: bool
    fixed_partitions: bool = False

    def known(self, past: Past) -> TopicProgress:
        """What the last batch knew. Raises SourceError where some of it is gone."""
        state = past.state
        if "unread" not in state or date.fromisoformat(state["from"]) > past.first:
            return self.known_by_days(past)
        if not self.is_same(state["version"]):
            return _ANOTHER
        return TopicProgress(offsets_of(state["version"]), from_json(state["unread"]), {})

    def known_by_days(self, past: Past) -> TopicProgress:
        """What was read of each day, so that the topic is looked through again."""
        versions = past.versions()
        read = {d: offsets_of(v) for d, v in versions.items() if self._is_of(v)}
        if read:
            self._require_partitions(set().union(*read.values()))
            return TopicProgress({}, {}, read, repeats=True)
        if versions:
            self.is_same(next(iter(versions.values())))  # raises, unless that is accepted
            return _ANOTHER
        return NOTHING_KNOWN if past.loaded else replace(NOTHING_KNOWN, repeats=False)

    def known_by(self, version: Version | None) -> TopicProgress:
        """What was read up to a version. Raises as `is_same` does."""
        if version is None:
            return NOTHING_KNOWN
        if not self.is_same(version):
            return _ANOTHER
        return TopicProgress(offsets_of(version), {}, {})

    def is_same(self, version: Version) -> bool:
        """Whether a version is of this topic. Raises SourceError where it has to be, or is cut."""
        if not self._is_of(version):
            if self.accepts_gaps and not self.fixed_partitions:
                return False
            raise SourceError(
                f"{self.path} was deleted and created again since it was read: it counts from 0 "
                f"again. Nothing was loaded. {self._if_another()}"
            )
        ends, read = self.now.end, offsets_of(version)
        cut = {p: (ends.get(p, 0), o) for p, o in read.items() if o > ends.get(p, 0)}
        if cut:
            raise SourceError(
                f"{self.path} ends before what was read of it ({in_words(cut)}): its log was cut, "
                "as by the election of an unclean leader. Nothing was loaded; give the source a "
                "table of another name, which reads the topic as it is now."
            )
        self._require_partitions(read.keys())
        return True

    def _require_partitions(self, read: Collection[int]) -> None:
        """Raise SourceError where the topic has more partitions than were read, and may not."""
        ends = self.now.end
        if self.fixed_partitions and ends.keys() - read:
            raise SourceError(
                f"{self.path} had {counted(len(read), 'partition')} when it was read, and has "
                f"{len(ends)} now. A key may have moved to another partition, and between two "
                "partitions it is unknown which row is the newest. Nothing was loaded. Copy the "
                "topic into one that has these partitions from its beginning, and give that a "
                "table of another name; or order the rows by a column: ChangeLog(deleted=…, "
                "sequence=…)."
            )

    def _if_another(self) -> str:
        """What to do about a topic that is another one now."""
        if self.fixed_partitions:
            return (
                "Rows are ordered by their offsets, so those of the old topic would win: give the "
                "source a table of another name."
            )
        return (
            "To read the new topic from its beginning into the same table, and do without what the "
            "old one had left, set on_gap='accept'; or give the source a table of another name."
        )

    def has_expired(self, messages: MessagesByDay) -> bool:
        """Whether some ranges of messages begin before the topic does."""
        begin = self.now.begin
        return any(
            first < begin[p] for m in messages.values() for p, (first, _) in m.ranges.items()
        )

    def lost(self, known: TopicProgress) -> tuple[str, ...]:
        """The note on messages that nobody has read and that are gone.

        Raises SourceError, unless that is accepted.
        """
        if known.is_another:
            what = "deleted and created again: what the old one had left is lost"
            return (f"The topic was {what}; the new one is read from its beginning.",)
        begin = self.now.begin
        read = [known.low, *known.read.values()]
        top = {p: max(offsets.get(p, 0) for offsets in read) for p in begin}
        lost = {} if known.is_first else lost_ranges(top, begin)
        for messages in known.unread.values():
            for p, (first, end) in messages.ranges.items():
                if first < begin[p]:
                    low, high = lost.get(p, (first, min(end, begin[p])))
                    lost[p] = min(low, first), max(high, min(end, begin[p]))
        if not lost:
            return ()
        what = counted(sum(end - low for low, end in lost.values()), "offset")
        if self.accepts_gaps:
            return (f"Lost: {what} that expired before they were read ({in_words(lost)}).",)
        raise SourceError(
            f"{self.path}: {what} expired before they were read ({in_words(lost)}), so up to so "
            "many messages are missing. Nothing was loaded. Restore them, or go on without them by "
            "on_gap='accept'; and load more often than the topic's retention."
        )

    def _is_of(self, version: Version) -> bool:
        return bool(version["topic"] == self.now.identity)


def version_of(identity: str, offsets: NextOffsets) -> Version:
    """A position in a topic, for the ledger."""
    return {"topic": identity, "next": {str(p): offset for p, offset in sorted(offsets.items())}}


def offsets_of(version: Version) -> NextOffsets:
    """The offsets of a position."""
    return {int(p): offset for p, offset in version["next"].items()}
