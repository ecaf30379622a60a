"""Which messages each load takes, in whatever order they come and days are loaded: each once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from incremental_assets.errors import SourceError
from incremental_assets.sources import kafka_fixed
from incremental_assets.sources.kafka import Kafka
from incremental_assets.sources.kafka_client import TopicState
from incremental_assets.sources.kafka_days import (
    DayMessages,
    NextOffsets,
    added_up,
    as_json,
    from_json,
    in_words,
    lost_ranges,
)
from incremental_assets.sources.kafka_fixed import FixedKafka
from incremental_assets.sources.source import Past

FIRST, TODAY = date(2017, 1, 5), date(2017, 1, 8)
DAYS = [None, *(date(2017, 1, 4) + timedelta(days=n) for n in range(7))]  # too early, and to come
LOADED = [FIRST + timedelta(days=n) for n in range(4)]


class Topic:
    """A topic in memory: the day of each message, by partition and offset."""

    def __init__(self) -> None:
        self.messages: dict[int, list[date | None]] = {0: [], 1: []}

    def fixed(self) -> FixedKafka:
        ends = {p: len(days) for p, days in self.messages.items()}
        now = TopicState("t", dict.fromkeys(ends, 0), ends, compacted=False)
        return FixedKafka("kafka://t", Kafka("localhost:1", "t"), now, {})

    def by_day(self, *args: Any) -> Mapping[date | None, DayMessages]:
        """As `messages_by_day`."""
        *_, low, high, read = args
        found: list[Mapping[date | None, DayMessages]] = []
        for p, days in self.messages.items():
            for offset in range(low.get(p, 0), high[p]):
                day = days[offset]
                if offset >= read.get(day, {}).get(p, 0):
                    found.append({day: DayMessages(1, 10, {p: (offset, offset + 1)})})
        return added_up(*found)


class Table:
    """A table that loads days of a topic, and what it has of it."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.state: Mapping[str, Any] = {}
        self.versions: dict[date, Any] = {}
        self.rows: list[tuple[int, int]] = []

    def load(self, days: set[date], held: set[date]) -> None:
        past = Past(self.state, lambda: self.versions, FIRST, TODAY)
        fixed = self.topic.fixed().since(past)
        assert fixed.days is not None
        some = days & fixed.days.keys()
        published = some - held
        for day in published:
            taken = [
                (p, offset)
                for of, messages in fixed.on([day]).unread.items()
                for p, (first, end) in messages.ranges.items()
                for offset in range(first, end)
                if self.topic.messages[p][offset] == of
            ]
            assert len(taken) == fixed.days[day].rows
            self.rows += taken
            self.versions[day] = fixed.version
        if published:
            self.state = {"version": fixed.version, **fixed.state_after(published)}


_sent = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(DAYS)), max_size=6)
_some_days = st.sets(st.sampled_from(LOADED))
_rounds = st.lists(st.tuples(_sent, _some_days, _some_days, st.booleans()), max_size=8)


@hypothesis(max_examples=300, deadline=None)
@given(_rounds)
def test_each_message_is_loaded_once_whatever_days_are_loaded_held_or_looked_through_again(
    rounds: list[tuple[list[tuple[int, date | None]], set[date], set[date], bool]],
) -> None:
    topic = Topic()
    table = Table(topic)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_fixed, "messages_by_day", topic.by_day)
        for sent, days, held, forgets in rounds:
            for partition, day in sent:
                topic.messages[partition].append(day)
            of_calendar = all(
                d is not None and d <= TODAY for p in topic.messages.values() for d in p
            )
            if forgets and of_calendar:  # of others, the rows' hashes know which are there
                table.state = {}
            table.load(days, held)
        table.load(set(LOADED), set())

    expected = [
        (p, offset)
        for p, days_of in topic.messages.items()
        for offset, day in enumerate(days_of)
        if day is None or day >= FIRST
    ]
    assert sorted(table.rows) == expected


def test_ranges_come_back_from_the_ledger_as_they_went() -> None:
    messages = {
        None: DayMessages(1, 2, {0: (3, 4)}),
        FIRST: DayMessages(5, 6, {0: (1, 9), 12: (0, 2)}),
    }

    assert from_json(as_json(messages)) == messages


@pytest.mark.parametrize(
    ("known", "begin", "lost"),
    [
        ({0: 5}, {0: 5}, {}),
        ({0: 5}, {0: 3}, {}),
        ({0: 5}, {0: 8}, {0: (5, 8)}),
        ({0: 5}, {0: 5, 1: 2}, {1: (0, 2)}),
    ],
)
def test_what_nobody_looked_at_and_is_gone_is_lost(
    known: NextOffsets, begin: NextOffsets, lost: dict[int, tuple[int, int]]
) -> None:
    assert lost_ranges(known, begin) == lost


def test_many_ranges_are_reported_by_the_first_ones() -> None:
    text = in_words({p: (0, p + 1) for p in range(7)})

    assert text.startswith("partition 0: 0 … 0, partition 1: 0 … 1")
    assert text.endswith("partition 4: 0 … 4 and 2 more")


def test_a_topic_that_is_another_one_is_refused_before_anything_is_read() -> None:
    fixed = Topic().fixed()
    past = Past(
        {"version": {"topic": "before", "next": {"0": 3}}, "unread": {}, "from": str(FIRST)},
        dict,
        FIRST,
        TODAY,
    )

    with pytest.raises(SourceError, match="deleted and created again"):
        fixed.since(past)
