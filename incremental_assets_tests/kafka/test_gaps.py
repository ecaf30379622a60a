"""What a topic no longer has is named: messages that expired, a topic that is another one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from incremental_assets.errors import SourceError
from incremental_assets.sources import kafka_fixed
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.world import BRONZE, DAYS, bronze, event, landed


def accepting(shop: Lake, broker: Broker, topic: str) -> Lake:
    """The same lake, which goes on behind a gap."""
    return shop.with_tables(bronze(broker, topic, on_gap="accept"))


def test_offsets_that_expired_before_they_were_read_are_named_and_go_on_only_when_accepted(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10")])
    shop.load(DAYS)
    broker.send(topic, [event(f"lost {n}", "05 11") for n in range(3)])
    broker.expire(topic, before=4)
    broker.send(topic, [event("b", "05 12")])

    message = r"3 offsets expired before they were read \(partition 0: 1 … 3\).*on_gap='accept'"
    with pytest.raises(SourceError, match=message):
        shop.load(DAYS)
    with pytest.raises(SourceError, match=message):
        shop.pending_days(BRONZE)
    assert landed(shop) == [("05", "a")]

    other = accepting(shop, broker, topic)
    other.load(DAYS)

    assert landed(other) == [("05", "a"), ("05", "b")]
    assert any("Lost: 3 offsets that expired" in line for line in other.logged)
    shop.load(DAYS)  # the gap lies behind it


def test_messages_that_were_seen_and_expired_before_their_day_was_loaded_are_named(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10"), event("b", "06 10"), event("c", "05 11")])
    shop.load("2017-01-06")  # the 5th has two messages that wait
    broker.expire(topic, before=1)

    with pytest.raises(SourceError, match=r"1 offset expired .*\(partition 0: 0 … 0\)"):
        shop.load("2017-01-05")
    other = accepting(shop, broker, topic)
    other.load("2017-01-05")

    assert landed(other) == [("05", "c"), ("06", "b")]


def test_a_load_that_reads_less_than_there_was_publishes_nothing_and_the_first_one_has_no_gap(
    lake: Lakes, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send(topic, [event("a", "05 10"), event("b", "05 11")])
    shop = lake(bronze(broker, topic))
    read = kafka_fixed.read_messages

    def expired_first(*args: Any) -> Any:
        broker.expire(topic, before=1)
        return read(*args)

    def another_first(*args: Any) -> Any:
        broker.delete(topic)
        broker.create(topic)
        broker.send(topic, [event("c", "05 10"), event("b", "05 11")])
        return read(*args)

    def fewer(*args: Any) -> Any:
        return read(*args).where("offset > 0")

    for reads, message in (
        (fewer, r"read 1 message of 2017-01-05, and 2 were there"),
        (expired_first, r"expired while they were read .*run again"),
        (another_first, r"was deleted and created again since"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(kafka_fixed, "read_messages", reads)
            with pytest.raises(SourceError, match=message):
                shop.load(DAYS)
        assert landed(shop) == []

    shop.load(DAYS)  # what expired before the first load is no gap
    assert landed(shop) == [("05", "b"), ("05", "c")]


def test_a_topic_that_was_deleted_and_created_again_is_no_continuation(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10")])
    shop.load(DAYS)
    broker.delete(topic)
    with pytest.raises(SourceError, match="Unknown topic"):
        shop.load(DAYS)
    broker.create(topic)
    broker.send(topic, [event("a", "05 10"), event("b", "06 10")])

    with pytest.raises(SourceError, match=r"deleted and created again .*on_gap='accept'"):
        shop.load(DAYS)
    other = accepting(shop, broker, topic)
    other.load(DAYS)
    other.load(DAYS)

    assert landed(other) == [("05", "a"), ("05", "a"), ("06", "b")]
    assert any("deleted and created again" in line for line in other.logged)


def test_a_topic_that_ends_before_what_was_read_is_refused(
    lake: Lakes, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10"), event("b", "05 11")])
    shop.load(DAYS)
    cut = kafka_fixed.topic_state

    def shorter(*args: Any) -> Any:
        return replace(cut(*args), end={0: 1})

    monkeypatch.setattr("incremental_assets.sources.kafka.topic_state", shorter)
    with pytest.raises(SourceError, match=r"ends before what was read of it \(partition 0: 1 … 1"):
        shop.load(DAYS)


def test_what_compaction_removed_is_no_gap(lake: Lakes, broker: Broker) -> None:
    topic = "test.compacted"
    compacting = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.001",
        "min_compaction_lag_ms": "0",
        "max_compaction_lag_ms": "100",
    }
    broker.create(topic, **compacting)
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10", key="k"), event("b", "05 11", key="k")])
    shop.load(DAYS)
    broker.send(topic, [event(n, "06 10", key="k") for n in range(50)])
    time.sleep(0.2)
    broker.send(topic, [event("last", "06 11", key="other")])  # closes the segment
    latest = time.monotonic() + 20
    while len(broker.messages(topic)) > 10 and time.monotonic() < latest:
        time.sleep(0.1)
    left = [offset for _, offset in broker.messages(topic) if offset >= 2]
    assert len(left) < 10, "the topic was not compacted"

    shop.load(DAYS)

    assert len([day for day, _ in landed(shop) if day == "06"]) == len(left)
    assert shop.pending_days(BRONZE) == []
