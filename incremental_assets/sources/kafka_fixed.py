"""A topic as one load reads it: up to the offsets that it had, by ranges of offsets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.plurals import counted
from incremental_assets.sources.kafka_client import TopicState, topic_state
from incremental_assets.sources.kafka_days import (
    DayMessages,
    MessagesByDay,
    Ranges,
    added_up,
    as_json,
    by_loading_day,
    in_words,
    loading_day,
)
from incremental_assets.sources.kafka_errors import why_spark_is_refused
from incremental_assets.sources.kafka_messages import (
    TopicReading,
    landing_day,
    of_days,
    origin,
    read_messages,
    whole,
)
from incremental_assets.sources.kafka_past import TopicPast, offsets_of, version_of
from incremental_assets.sources.kafka_scan import messages_by_day
from incremental_assets.sources.kafka_values import with_values
from incremental_assets.sources.object_columns import infer_columns, with_columns_of
from incremental_assets.sources.payloads import HASH, LANDED, MESSAGE
from incremental_assets.sources.source import NO_TYPES, FixedSource, Past, Version
from incremental_assets.sources.source_file import SourceFile

if TYPE_CHECKING:
    from incremental_assets.sources.kafka import Kafka

_BYTES = 500  # of a message, where nothing is known of them


@dataclass(frozen=True)
class FixedKafka(FixedSource):
    """A topic up to the offsets that it had; `ranges` are those of its messages that are read.

    Of messages by day, `unread` are those that were not loaded yet.
    """

    path: str
    of: Kafka
    now: TopicState
    ranges: Ranges
    notes: tuple[str, ...] = ()
    days: Mapping[date, DayMessages] | None = None
    may_repeat: bool = True
    unread: MessagesByDay = field(default_factory=dict)
    first: date = date.min
    today: date = date.max
    files: tuple[SourceFile, ...] = ()
    needs: tuple[str, ...] = ("kafka",)

    @property
    def past(self) -> TopicPast:
        """What finds again what was read of it."""
        return TopicPast(self.path, self.now, self.of.on_gap == "accept", self.of.fixed_partitions)

    @property
    def version(self) -> Version:  # type: ignore[override]
        """The topic's identity, and the next offset of each partition."""
        return version_of(self.now.identity, self.now.end)

    @property
    def fingerprint(self) -> str:
        ends = json.dumps([self.now.identity, sorted(self.now.end.items())])
        return f"offsets {hashlib.blake2b(ends.encode(), digest_size=16).hexdigest()}"

    @property
    def is_typed(self) -> bool:
        return False

    @property
    def height(self) -> int:
        return sum(self.now.end.values())

    def version_text(self, version: Version) -> str:
        """The next offset of each partition, or of many their sum."""
        found = offsets_of(version)
        if len(found) > 5:
            return f"offsets of {sum(found.values()):,} messages in {len(found)} partitions"
        return "offset " + ", ".join(f"{end} of partition {p}" for p, end in sorted(found.items()))

    @property
    def has_all_it_had(self) -> bool:
        """Retention and compaction remove messages."""
        return False

    def size(self) -> int:
        if self.days is not None:
            return sum(part.size for part in self.days.values())
        return _BYTES * sum(end - low for low, end in self.ranges.values())

    def version_after(self, read: Version | None, most: int) -> Version:
        known = self.past.known_by(read).low
        low = {p: max(begin, known.get(p, 0)) for p, begin in self.now.begin.items()}
        left = {p: end for p, end in self.now.end.items() if low[p] < end}
        each = -(-most // max(len(left), 1))
        taken = {p: min(end, low[p] + each) for p, end in left.items()}
        return version_of(self.now.identity, {**self.now.end, **taken})

    def added_since(self, low: Version | None, high: Version) -> FixedKafka:
        """The messages between two positions. Raises SourceError where some of them are gone."""
        known = self.past.known_by(low)
        lost = self.past.lost(known)
        start = {**self.now.begin, **{p: max(o, self.now.begin[p]) for p, o in known.low.items()}}
        ranges = whole(start, offsets_of(high))
        return replace(self, ranges=ranges, notes=(*self.notes, *lost))

    def since(self, past: Past) -> FixedKafka:
        """The messages of each day that were not loaded yet, found by looking through the rest."""
        known = self.past.known(past)
        notes, begin = (*self.notes, *self.past.lost(known)), self.now.begin
        if self.past.has_expired(known.unread):
            known = self.past.known_by_days(past)
        low = {p: max(known.low.get(p, 0), begin[p]) for p in self.now.end}
        new = messages_by_day(
            self.of.access(),
            self.of.topic,
            self.now.identity,
            self.path,
            low,
            self.now.end,
            known.read,
        )
        early = sum(m.rows for d, m in new.items() if loading_day(d, past.today) < past.first)
        if early:
            what = counted(early, "message")
            why = "INCREMENTAL_ASSETS_START_DATE"
            notes = (*notes, f"{what} of days before {past.first} will not be loaded ({why}).")
        unread = added_up(known.unread, new)
        unread = {d: m for d, m in unread.items() if loading_day(d, past.today) >= past.first}
        return replace(
            self,
            notes=notes,
            days=by_loading_day(unread, past.first, past.today),
            may_repeat=known.repeats,
            unread=unread,
            first=past.first,
            today=past.today,
        )

    def on(self, days: Collection[date]) -> FixedKafka:
        """The messages that are loaded with these days."""
        some = {d: m for d, m in self.unread.items() if loading_day(d, self.today) in days}
        ranges: dict[int, tuple[int, int]] = {}
        for messages in some.values():
            for p, (first, end) in messages.ranges.items():
                low, high = ranges.get(p, (first, end))
                ranges[p] = min(low, first), max(high, end)
        return replace(self, ranges=ranges, unread=some)

    def state_after(self, published: Collection[date]) -> Mapping[str, Any]:
        left = {d: m for d, m in self.unread.items() if loading_day(d, self.today) not in published}
        return {"unread": as_json(left), "from": str(self.first)}

    def require_read(self, rows: Mapping[date, int]) -> None:
        self._require_same()  # offsets of another topic would be read without an error
        if self.may_repeat or self.now.compacted or self.days is None:
            return
        for day, found in rows.items():
            expected = self.days[day].rows
            if found != expected:
                raise SourceError(
                    f"{self.path}: Spark read {counted(found, 'message')} of {day}, and "
                    f"{expected:,} were there when the load began. Nothing was loaded; run again, "
                    "and if it fails again, compare the topic with another consumer."
                )

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        """The fields of the messages' values as columns; a value that is no object is a line."""
        if only is not None:
            raise ValueError(f"{self.path} is a topic; `only` is for files")
        row = F.col("payload").try_cast("map<string,variant>").isNotNull()
        line = F.coalesce("_raw", F.to_json("payload"))
        found = self._messages(frames).select(
            F.when(row, F.col("payload")).alias("payload"),
            F.when(~F.coalesce(row, F.lit(False)), line).alias("_raw"),
            "_file",
        )
        found = frames.cache(found)
        columns = infer_columns(found, "payload", known, self.path)
        return with_columns_of(found, columns).drop("payload")

    def objects(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """As `FixedSource.objects`, with `_hash`, `_landed` and `_message`."""
        return self._messages(frames).select("payload", "_raw", "_file", HASH, LANDED, MESSAGE)

    def payloads(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        return self._messages(frames).select("payload", "_key", "_raw", "_file")

    def explained(self, error: Exception) -> SourceError | None:
        """Why Spark could not read: the messages expired meanwhile, or the topic is another."""
        try:
            now = self._require_same()
        except SourceError as found:
            return found
        expired = {
            p: (low, now.begin[p]) for p, (low, _) in self.ranges.items() if low < now.begin[p]
        }
        if not expired:
            return why_spark_is_refused(self.path, str(error))
        return SourceError(
            f"{self.path}: messages expired while they were read ({in_words(expired)}). Nothing "
            "was loaded; run again."
        )

    def _require_same(self) -> TopicState:
        """The topic as it is by now. Raises SourceError if it is another one, or cut."""
        now = topic_state(self.of.access(), self.of.topic, self.path)
        TopicPast(self.path, now, accepts_gaps=False).is_same(self.version)
        return now

    def _messages(self, frames: Frames) -> DataFrame:
        """`payload`, `_key`, `_raw`, `_file`, `_hash`, `_landed` and `_message` of each message."""
        of = self.of
        rows = sum(end - low for low, end in self.ranges.values())
        found = read_messages(frames, TopicReading(of.access(), of.topic, self.ranges, rows))
        found = found.withColumn(LANDED, landing_day())
        if self.days is not None:
            found = of_days(found, self.unread)
        found = with_values(frames, found, of.value, of.key, of.schemas)
        return found.withColumns(
            {
                "_file": F.concat_ws("/", F.lit(of.topic), "partition"),
                HASH: F.concat_ws("/", F.lit(self.now.identity), "partition", "offset"),
                MESSAGE: origin(F.col("_key")),
            }
        )
